"""Fields of a messages request without effect here: refused where they would change the reply, else ignored.

A field that a request model declares is honoured; any other is in a table here, or unknown and refused.
"""

from __future__ import annotations

from pipelines.requests.fields.known_fields import Refused

KEEPS_THINKING = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}

REFUSED: dict[str, Refused] = {
    "container": Refused("there are no containers here"),
    "context_management": Refused(
        "a conversation is used as it is sent; shorten it yourself", ({}, {"edits": []}, KEEPS_THINKING)
    ),
    "diagnostics": Refused("why a prompt was not cached is not reported"),
    "inference_geo": Refused("this server cannot guarantee a region", ("global",)),
    "mcp_servers": Refused("this server calls no tools itself; run them in your client", ([],)),
    "speed": Refused("there is one speed", ("standard",)),
}
"""Fields that a request may carry only with a neutral value."""

IGNORED: dict[str, str] = {
    "betas": "names of preview features; the fields of a request determine what it uses",
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "metadata": "a name for the operator's own statistics; it does not change the answer",
    "service_tier": "there is one tier",
    "user_profile_id": "a name for the operator's own statistics; it does not change the answer",
    "workspace_id": "a server has one workspace",
}
"""Field → why it may be accepted without effect."""

IGNORED_IN_BLOCKS: dict[str, str] = {
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "caller": "what an earlier reply carried; every call here comes from the model itself",
    "citations": "replies have none; a search result is shown with its title and its source",
    "is_error": "templates have no marker for a failed call; its content describes the failure",
    "parsed_output": "what an earlier reply was parsed into; its text is read",
    "signature": "replies of this server are not signed; the thinking itself is read",
}

REFUSED_IN_TOOLS: dict[str, Refused] = {
    "allowed_callers": Refused("only the model itself calls tools", (["direct"], [])),
    "defer_loading": Refused("there is no tool search; every tool is shown to the model", (False,)),
}
IGNORED_IN_TOOLS: dict[str, str] = {
    "cache_control": "a hint for speed; equal prompt beginnings are found without it",
    "eager_input_streaming": "arguments are always streamed as they are written",
}

IGNORED_BLOCKS: dict[str, str] = {
    "redacted_thinking": "only its maker can read it; this server makes none",
}
"""Kind of content block → why it may be accepted without effect."""
