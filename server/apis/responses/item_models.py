"""The items of an input as they are sent: their models by type."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import Items, field_error


def _content(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return value
    if not isinstance(value, str):
        raise field_error(f"must be a string or a list of content parts, got {quoted(value)}")
    return value


ItemContent = Annotated[Any, BeforeValidator(_content)]
"""A string, or a list of objects."""


class InputItem(DeferredModel):
    """One item of an input.  Undeclared fields are refused unless null or listed in IGNORED_IN_ITEMS."""

    model_config = ConfigDict(extra="allow")
    prefix: ClassVar[str]
    """Prefix of the ids of this type."""

    type: str


class InputMessage(InputItem):
    prefix: ClassVar[str] = "msg"

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: ItemContent


class InputFunctionCall(InputItem):
    """A function call of the model."""

    prefix: ClassVar[str] = "fc"

    type: Literal["function_call"]
    call_id: StrictStr | None = None
    name: StrictStr
    arguments: StrictStr


class InputFunctionOutput(InputItem):
    """The result of a function call."""

    prefix: ClassVar[str] = "fco"

    type: Literal["function_call_output"]
    call_id: StrictStr
    output: ItemContent


class InputCustomCall(InputItem):
    """A call of a custom tool."""

    prefix: ClassVar[str] = "ctc"

    type: Literal["custom_tool_call"]
    call_id: StrictStr | None = None
    name: StrictStr
    input: StrictStr


class InputCustomOutput(InputItem):
    """The result of a call of a custom tool."""

    prefix: ClassVar[str] = "ctco"

    type: Literal["custom_tool_call_output"]
    call_id: StrictStr
    output: ItemContent


class ShellAction(DeferredModel):
    model_config = ConfigDict(extra="allow")
    commands: Items[StrictStr]


class InputShellCall(InputItem):
    """A call of OpenAI's `shell`."""

    prefix: ClassVar[str] = "sh"

    type: Literal["shell_call"]
    call_id: StrictStr | None = None
    action: ShellAction
    environment: Any = None


class InputShellOutput(InputItem):
    """What the commands of a shell wrote."""

    prefix: ClassVar[str] = "sho"

    type: Literal["shell_call_output"]
    call_id: StrictStr
    output: Items[dict[str, Any]]
    max_output_length: Any = None


class ExecAction(DeferredModel):
    model_config = ConfigDict(extra="allow")
    command: Items[StrictStr]


class InputLocalShellCall(InputItem):
    """A call of OpenAI's `local_shell`."""

    prefix: ClassVar[str] = "lsh"

    type: Literal["local_shell_call"]
    call_id: StrictStr | None = None
    action: ExecAction


class InputLocalShellOutput(InputItem):
    """What a local shell wrote; clients write the call's id as `call_id` or as `id`."""

    prefix: ClassVar[str] = "lsho"

    type: Literal["local_shell_call_output"]
    id: StrictStr | None = None
    call_id: StrictStr | None = None
    output: StrictStr


class PatchOperation(DeferredModel):
    model_config = ConfigDict(extra="allow")
    type: Literal["create_file", "update_file", "delete_file"]
    path: StrictStr
    diff: StrictStr | None = None


class InputPatchCall(InputItem):
    """A call of OpenAI's `apply_patch`."""

    prefix: ClassVar[str] = "apc"

    type: Literal["apply_patch_call"]
    call_id: StrictStr | None = None
    operation: PatchOperation


class InputPatchOutput(InputItem):
    """Whether a patch was applied, and what the client says of it."""

    prefix: ClassVar[str] = "apco"

    type: Literal["apply_patch_call_output"]
    call_id: StrictStr
    status: Literal["completed", "failed"] = "completed"
    output: StrictStr | None = None


class InputSearchCall(InputItem):
    """A search for tools, which the client runs."""

    prefix: ClassVar[str] = "tsc"

    type: Literal["tool_search_call"]
    call_id: StrictStr | None = None
    arguments: Any = None


class InputSearchOutput(InputItem):
    """The tools that a search found; they can be called from there on."""

    prefix: ClassVar[str] = "tso"

    type: Literal["tool_search_output"]
    call_id: StrictStr | None = None
    tools: Items[dict[str, Any]]


class InputAdditionalTools(InputItem):
    """Tools that can be called from there on."""

    prefix: ClassVar[str] = "at"

    type: Literal["additional_tools"]
    role: Literal["developer"] = "developer"
    tools: Items[dict[str, Any]]


class InputCompaction(InputItem):
    """What stands for the conversation before it."""

    prefix: ClassVar[str] = "cmp"

    type: Literal["compaction"]
    encrypted_content: StrictStr


class InputCompactionTrigger(InputItem):
    """The last item of an input whose reply is to be a compaction."""

    prefix: ClassVar[str] = "cmt"

    type: Literal["compaction_trigger"]


class TextPart(DeferredModel):
    model_config = ConfigDict(extra="allow")
    text: StrictStr


class InputReasoning(InputItem):
    prefix: ClassVar[str] = "rs"

    type: Literal["reasoning"]
    summary: Items[TextPart] | None = None
    content: Items[TextPart] | None = None


class InputLeftOut(InputItem):
    """An item that the model is not shown."""

    prefix: ClassVar[str] = "item"


ITEMS: dict[str, type[InputItem]] = {
    "message": InputMessage,
    "function_call": InputFunctionCall,
    "function_call_output": InputFunctionOutput,
    "reasoning": InputReasoning,
    "custom_tool_call": InputCustomCall,
    "custom_tool_call_output": InputCustomOutput,
    "shell_call": InputShellCall,
    "shell_call_output": InputShellOutput,
    "local_shell_call": InputLocalShellCall,
    "local_shell_call_output": InputLocalShellOutput,
    "apply_patch_call": InputPatchCall,
    "apply_patch_call_output": InputPatchOutput,
    "tool_search_call": InputSearchCall,
    "tool_search_output": InputSearchOutput,
    "additional_tools": InputAdditionalTools,
    "compaction": InputCompaction,
    "compaction_trigger": InputCompactionTrigger,
}
"""Type of an item → its model."""
CALLS = (
    InputFunctionCall,
    InputCustomCall,
    InputShellCall,
    InputLocalShellCall,
    InputPatchCall,
    InputSearchCall,
)
LEFT_OUT = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "computer_call",
    "computer_call_output",
    "program",
    "program_output",
    "configuration_update",
)
"""Types of items about tools that are not run for models here: what another server or client did with them is
stored, and left out of the prompt.
"""
