"""Fields of Gemini's requests without effect here: refused if they would change the reply, else ignored."""

from __future__ import annotations

from pipelines.requests.fields.known_fields import TEXT_ONLY, Refused

BY_SERVER = (
    "a call that a server ran, or what came of it; the text of the reply says what the model made of it"
)
LEFT_OUT_PARTS: dict[str, str] = {
    "codeExecutionResult": BY_SERVER,
    "executableCode": BY_SERVER,
    "toolCall": BY_SERVER,
    "toolResponse": BY_SERVER,
}
"""What parts of earlier replies of other servers may have → why a part with nothing else is left out."""

REFUSED: dict[str, Refused] = {
    "cachedContent": Refused("this server stores no contents; equal prompt beginnings are found without it"),
}
IGNORED: dict[str, str] = {
    "labels": "a name for the operator's own statistics; it does not change the answer",
    "model": "the path names the model",
    "safetySettings": "this server does not moderate",
    "serviceTier": "there is one tier",
    "store": "replies are not stored",
}
REFUSED_IN_CONFIG: dict[str, Refused] = {
    "responseModalities": Refused(TEXT_ONLY, (["TEXT"], [])),
    "responseLogprobs": Refused("log-probabilities are given by chat/completions", (False,)),
    "logprobs": Refused("log-probabilities are given by chat/completions"),
    "speechConfig": Refused(TEXT_ONLY),
    "imageConfig": Refused(TEXT_ONLY),
}
IGNORED_IN_FUNCTIONS: dict[str, str] = {
    "behavior": "the client decides whether it waits for a function",
    "response": "what a function returned is read as it comes",
    "responseJsonSchema": "what a function returned is read as it comes",
}
IGNORED_IN_TOOL_CONFIG: dict[str, str] = {
    "retrievalConfig": "belongs to a tool that this server does not run",
    "includeServerSideToolInvocations": "this server runs no tools",
}
IGNORED_IN_CALLING: dict[str, str] = {
    "streamFunctionCallArguments": "a call is sent once its arguments are whole",
}
IGNORED_IN_CONFIG: dict[str, str] = {
    "audioTimestamp": "sounds are not read here",
    "enableEnhancedCivicAnswers": "models here have one kind of answers",
    "mediaResolution": "an image is scaled to the one size that the model reads",
    "routingConfig": "the path names the model",
}
