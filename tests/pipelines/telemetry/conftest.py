import pytest


@pytest.fixture
def model(request):
    """A label that no other test writes to."""
    return request.node.name
