"""The library of the CPU kernels in each instruction set."""

from __future__ import annotations

import pytest
from kernel_library import INSTRUCTION_SETS, instruction_set


@pytest.fixture(params=INSTRUCTION_SETS)
def library(request):
    with instruction_set(request.param) as library:
        yield library
