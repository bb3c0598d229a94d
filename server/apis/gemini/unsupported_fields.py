"""Fields of Gemini's requests without effect here: refused if they would change the reply, else ignored."""

from __future__ import annotations

from pipelines.requests.fields.known_fields import TEXT_ONLY, Refused

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
IGNORED_IN_CONFIG: dict[str, str] = {
    "audioTimestamp": "sounds are not read here",
    "enableEnhancedCivicAnswers": "models here have one kind of answers",
    "mediaResolution": "an image is scaled to the one size that the model reads",
    "routingConfig": "the path names the model",
}
