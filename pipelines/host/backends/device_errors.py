"""What can go wrong with a model and its device.  Knows nothing of requests."""

from __future__ import annotations

EXPORT_ADVICE = (
    "Export it as a decoder with a cache: braid export HF_FOLDER --name NAME "
    "(or optimum-cli export openvino, or onnx, with --task text-generation-with-past)."
)


class ModelError(Exception):
    """An exported model cannot be served as asked; the message says why and what to do."""


class Unsupported(ModelError):
    """This engine cannot run what another may."""


class DeviceLost(BaseException):
    """The device computes nothing more for this process, as after an illegal address on a GPU.

    No `except Exception` holds it, so that it passes the engine and ends the host, whose supervisor starts a
    new one with a new context; the requests in flight get a clean error meanwhile.
    """
