"""Errors of models and devices."""

from __future__ import annotations

from pathlib import Path

EXPORT_ADVICE = (
    "Export it as a decoder with a cache: braid export HF_FOLDER --name NAME "
    "(or optimum-cli export openvino, or onnx, with --task text-generation-with-past)."
)


class ModelError(Exception):
    """An exported model cannot be served; the message states the reason and what to do."""


class Unsupported(ModelError):
    """This engine cannot run the model; another engine may."""


class NothingToAdapt(ModelError):
    """The model has none of the linear layers that adapters should change."""


class DeviceLost(BaseException):
    """The device can compute nothing more in this process, as after an illegal address on a GPU.

    Derived from BaseException, so that no `except Exception` catches it: it ends the host process, whose
    supervisor starts a new one with a new CUDA context.  Requests in flight get an error.
    """


def require_file(path: Path) -> None:
    """Raise `ModelError` where a model's file is not there."""
    if not path.is_file():
        raise ModelError(f"{path} does not exist.")
