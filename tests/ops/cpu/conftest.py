"""The library of the CPU kernels in each instruction set."""

from __future__ import annotations

import pytest
from kernel_library import INSTRUCTION_SETS, kernel_library


@pytest.fixture(params=INSTRUCTION_SETS)
def library(request):
    library = kernel_library()
    usual = library.bl_isa()
    if not library.bl_set_isa(request.param.encode()):
        pytest.skip(f"this processor has no {request.param}")
    yield library
    assert library.bl_set_isa(usual)
