"""OpenVINO Model Server's rules for the parts of chat messages, and its error texts for images.

`uuid`, which that server does not have, stands for an image here as on every path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.base.errors import RequestError
from server.dialects.rules import Rule, text

STRUCTURE = "Invalid message structure - "


def _every_part(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A test that `holds` is true for every part of messages; a list of token ids has none."""

    def every(messages: Any) -> bool:
        contents = (each.get("content") for each in messages if isinstance(each, dict))
        return all(map(holds, (part for parts in contents if isinstance(parts, list) for part in parts)))

    return every


def _shows(part: Any) -> bool:
    """Whether a part has its image in itself."""
    return part["type"] == "image_url" and not part.get("uuid")


PARTS: list[Rule] = [
    Rule("messages", _every_part(holds), STRUCTURE + fault)
    for holds, fault in (
        (lambda part: isinstance(part, dict), "content array should contain objects"),
        (lambda part: text(part.get("type")), "content object type missing"),
        (lambda part: part["type"] != "text" or text(part.get("text")), "content text missing"),
        (lambda part: not _shows(part) or part.get("image_url") is not None, "content image_url missing"),
        (
            lambda part: (
                not _shows(part)
                or text(part["image_url"])
                or (isinstance(part["image_url"], dict) and text(part["image_url"].get("url")))
            ),
            "image_url does not have url field",
        ),
    )
]

WORDS: tuple[tuple[str, str], ...] = (
    *(
        (
            f"text only, so `{kind}` parts",
            "This servable supports only text input, but image_url has been provided",
        )
        for kind in ("image_url", "input_image")
    ),
    ("Invalid base64 data", "Invalid base64 string in request"),
    ("Only base64 data URLs are supported", "Invalid base64 string in request"),
    ("this is no image", "Image parsing failed"),
    ("the image cannot be decoded", "Image parsing failed"),
    (
        "must be from one of the allowed domains",
        "Given url does not match any allowed domain from allowed_media_domains",
    ),
    (
        "BRAID_ALLOWED_MEDIA_DOMAINS names no host",
        "Given url does not match any allowed domain from allowed_media_domains",
    ),
    ("Cannot load local files", "Loading images from local filesystem is disabled."),
    ("must be a subpath of", "Given filepath is not subpath of allowed_local_media_path"),
)
"""What a message of ours has → that server's text."""


def translate_error(error: RequestError) -> RequestError:
    """The error of an image with OpenVINO Model Server's text."""
    found = next((words for ours, words in WORDS if ours in error.message), None)
    return error if found is None else RequestError(found, field=error.field)
