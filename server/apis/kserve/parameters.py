"""The parameters of requests, tensors and outputs: which are honoured, refused and ignored, and why."""

from __future__ import annotations

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.known_fields import Refused, check_fields
from server.apis.kserve.messages import Parameters

SHARED_MEMORY = Refused("this server reads no memory of its clients", ())
OF_SHARED_MEMORY = {f"shared_memory_{name}": SHARED_MEMORY for name in ("region", "byte_size", "offset")}
SEQUENCE = Refused("this server holds no state between requests", (0, "", False))

HONOURED = ("binary_data_output",)
"""Parameters of a request that have an effect."""
REFUSED = {"sequence_id": SEQUENCE, "sequence_start": SEQUENCE, "sequence_end": SEQUENCE}
IGNORED = {
    "priority": "tensor requests run in the order in which they arrive",
    "timeout": "a request ends when its client gives up",
    "headers": "no model reads them",
    "triton_enable_empty_final_response": "a stream ends when its last response was sent",
}
HONOURED_IN_INPUTS = ("binary_data_size",)
HONOURED_IN_OUTPUTS = ("binary_data",)
EVERY_HONOURED = HONOURED + HONOURED_IN_INPUTS + HONOURED_IN_OUTPUTS
REFUSED_IN_OUTPUTS = OF_SHARED_MEMORY | {
    "classification": Refused("this server returns tensors as the model gives them", (0,))
}


def flag(parameters: Parameters | None, name: str, default: bool) -> bool:
    """A truth value among the parameters.  Raises RequestError for anything else under its name."""
    value = (parameters or {}).get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RequestError(f"`{name}` must be true or false, got {quoted(value)}", field=name)
    return value


def check_request(parameters: Parameters | None) -> None:
    """Raise RequestError for a parameter of a request that would change its meaning if it were ignored."""
    others = {name: value for name, value in (parameters or {}).items() if name not in HONOURED}
    check_fields(others, HONOURED, REFUSED, IGNORED, "parameters.")


def check_input(parameters: Parameters | None) -> None:
    """Checks the parameters of an input."""
    others = {name: value for name, value in (parameters or {}).items() if name not in HONOURED_IN_INPUTS}
    check_fields(others, HONOURED_IN_INPUTS, OF_SHARED_MEMORY, where="inputs.parameters.")


def check_output(parameters: Parameters | None) -> None:
    """Checks the parameters of a requested output."""
    others = {name: value for name, value in (parameters or {}).items() if name not in HONOURED_IN_OUTPUTS}
    check_fields(others, HONOURED_IN_OUTPUTS, REFUSED_IN_OUTPUTS, where="outputs.parameters.")
