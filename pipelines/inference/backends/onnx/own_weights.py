"""The form of a converted GGUF file for engines that cannot read weights where they are in the file."""

from __future__ import annotations

from pathlib import Path

from pipelines.gguf.converted_files import with_codes
from pipelines.inference.contracts.device_errors import ModelError


def with_own_weights(path: Path) -> Path:
    """The model.onnx with weights in its own folder, made when it is not there.  Raises `ModelError`."""
    try:
        return with_codes(path)
    except (ValueError, OSError) as error:
        raise ModelError(str(error)) from error
