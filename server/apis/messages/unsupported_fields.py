"""Fields of a messages request without effect here: refused where they would change the reply, else ignored.

A field that a request model declares is honoured; any other is in a table here, or unknown and refused.
"""

from __future__ import annotations

from pipelines.requests.fields.known_fields import Refused

REFUSED: dict[str, Refused] = {
    "container": Refused("there are no containers here"),
    "inference_geo": Refused("this server cannot guarantee a region", ("global",)),
    "mcp_servers": Refused("this server calls no tools itself; run them in your client", ([],)),
}
"""Fields that a request may carry only with a neutral value."""

IGNORED: dict[str, str] = {
    "betas": "names of preview features; the fields of a request determine what it uses",
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "context_management": "a conversation is used as it is sent, and no reply says that an edit was applied",
    "diagnostics": "a question about prompts that were not found again; `usage` counts those that were",
    "fallback_credit_token": "nothing is charged here",
    "fallbacks": "for a model that declines by a rule of its maker's; none does here",
    "metadata": "a name for the operator's own statistics; it does not change the answer",
    "service_tier": "there is one tier",
    "speed": "there is one speed",
    "user_profile_id": "a name for the operator's own statistics; it does not change the answer",
    "workspace_id": "a server has one workspace",
}
"""Field → why it may be accepted without effect."""

IGNORED_IN_BLOCKS: dict[str, str] = {
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "caller": "what an earlier reply carried; every call here comes from the model itself",
    "citations": "replies have none; search results and documents are shown with their titles",
    "is_error": "templates have no marker for a failed call; its content describes the failure",
    "parsed_output": "what an earlier reply was parsed into; its text is read",
    "signature": "replies of this server are not signed; the thinking itself is read",
}

REFUSED_IN_TOOLS: dict[str, Refused] = {
    "allowed_callers": Refused("only the model itself calls tools", (["direct"], [])),
}
IGNORED_IN_TOOLS: dict[str, str] = {
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "eager_input_streaming": "arguments are always streamed as they are written",
    "max_characters": "the client cuts what its tool shows",
}

BY_SERVER = (
    "a call that a server ran, or what came of it; the text of the reply says what the model made of it"
)
LEFT_OUT: dict[str, str] = {
    "server_tool_use": BY_SERVER,
    "web_search_tool_result": BY_SERVER,
    "web_fetch_tool_result": BY_SERVER,
    "code_execution_tool_result": BY_SERVER,
    "bash_code_execution_tool_result": BY_SERVER,
    "text_editor_code_execution_tool_result": BY_SERVER,
    "tool_search_tool_result": BY_SERVER,
    "advisor_tool_result": BY_SERVER,
    "mcp_tool_use": BY_SERVER,
    "mcp_tool_result": BY_SERVER,
    "mcp_tool_listing": BY_SERVER,
    "fallback": "says that another model replied; its reply is read",
}
"""Kind of content block of earlier replies of other servers → why it is left out, whatever it holds."""
IGNORED_BLOCKS: dict[str, str] = {
    "redacted_thinking": "only its maker can read it; this server makes none",
    **LEFT_OUT,
}
"""Kind of content block → why it may be accepted without effect."""
