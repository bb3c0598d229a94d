"""An array of each type of element that KServe's protocol has, for the programs that send tensors."""

import ml_dtypes
import numpy as np

IMAGE = np.arange(8, dtype=np.float32).reshape(2, 4)
TYPES = {
    "BOOL": np.dtype(bool),
    **{
        f"{kind}INT{bits}": np.dtype(f"{kind.lower()}int{bits}")
        for kind in ("", "U")
        for bits in (8, 16, 32, 64)
    },
    "FP16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BYTES": np.dtype(object),
}
ONLY_AS_BYTES = ("FP16", "BF16")


def elements(datatype: str) -> np.ndarray:
    """[2, 3], with the least and the largest element of the type; one half is a number of each type."""
    dtype = TYPES[datatype]
    if datatype == "BYTES":
        return np.array([[b"", b"a", "\u017elu\u0165".encode()], [b"x" * 300, b"{", b"1"]], dtype)
    if datatype == "BOOL":
        return np.array([[True, False, True], [False, True, True]])
    if "INT" in datatype:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    else:
        least, most = ml_dtypes.finfo(dtype).min, ml_dtypes.finfo(dtype).max
    return (
        np.array([[least, most, 0], [1, 0.5, 2]]).astype(dtype)
        if "INT" not in datatype
        else np.array([[least, most, 0], [1, 2, 3]], dtype)
    )


def doubled_beside(image: np.ndarray) -> np.ndarray:
    """What the graph of two models gives: half of the doubled image, and the image."""
    return np.concatenate([2 * image[:, :2], image], 1)
