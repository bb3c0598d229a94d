"""The names of tensor types in KServe's protocol, and numpy's types for them.

A text tensor is an array of objects, each `bytes`; wire and models call its type "bytes".
"""

from __future__ import annotations

from typing import Any

import ml_dtypes  # noqa: F401  # makes "bfloat16" a name that numpy knows
import numpy as np
from numpy.typing import NDArray

from pipelines.base.element_types import name_of
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted

BYTES = "BYTES"
TEXT = "bytes"
NAMES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float32",
    "FP64": "float64",
    BYTES: TEXT,
}
"""The protocol's name → numpy's."""
DATATYPES = {name: datatype for datatype, name in NAMES.items()}
BINARY_ONLY = frozenset({"FP16", "BF16"})
"""Types without a form in JSON."""


def dtype_of(datatype: str, name: str) -> np.dtype[Any]:
    """numpy's type for the protocol's name; objects for text.  Raises RequestError naming the tensor."""
    found = NAMES.get(datatype)
    if found is None:
        raise RequestError(
            f"The datatype of the tensor {name} is {quoted(datatype)}; allowed: {', '.join(NAMES)}",
            field=name,
        )
    return np.dtype(object if found == TEXT else found)


def datatype_of(array: NDArray[Any]) -> str:
    """The protocol's name for the type of an array."""
    return DATATYPES[name_of(array.dtype)]
