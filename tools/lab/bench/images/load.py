"""Questions about images of noise, and how Braid is asked them over HTTP."""

from __future__ import annotations

import base64
import io
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.client.http_client import JSON, local_client

SIDE = 400


@dataclass(frozen=True)
class Questions:
    """One for each of `images`, which are seeds, all at once; each answer has `num_tokens`."""

    images: Sequence[int]
    num_tokens: int


def pixels(seed: int) -> NDArray[np.uint8]:
    """uint8[SIDE, SIDE, 3]: coarse noise."""
    coarse = np.random.default_rng(seed).integers(0, 256, (SIDE // 8, SIDE // 8, 3), np.uint8)
    return np.kron(coarse, np.ones((8, 8, 1), np.uint8))


def question(seed: int) -> str:
    """A text of its own, so that no prompt begins as another."""
    return f"{seed}: what is in this picture, and what is not?"


def shown(seed: int, name: str | None = None) -> dict[str, Any]:
    """The part of a message."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels(seed)).save(out, "JPEG", quality=95)
    url = "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": url}} | ({"uuid": name} if name else {})


def body_of(text: str, part: dict[str, Any], num_tokens: int) -> bytes:
    """A request whose prompt begins with the text."""
    content = [{"type": "text", "text": text}, part]
    fields = {"stream": True, "temperature": 0, "ignore_eos": True, "max_tokens": num_tokens}
    return json.dumps({"messages": [{"role": "user", "content": content}], **fields}).encode()


def asked(port: int, body: bytes) -> tuple[float, float]:
    """Seconds until the first token, and until the end.  Raises RequestFailed."""
    begin, first = time.perf_counter(), None
    with local_client(port).reply("POST", "/v1/chat/completions", body, JSON) as reply:
        for line in reply:
            if first is None and line.startswith(b"data: ") and b'"content":"' in line.replace(b'""', b""):
                first = time.perf_counter() - begin
    total = time.perf_counter() - begin
    return total if first is None else first, total


def ask_all(port: int, questions: Questions) -> float:
    """Seconds until all are answered."""
    bodies = [body_of(question(seed), shown(seed), questions.num_tokens) for seed in questions.images]
    begin = time.perf_counter()
    with ThreadPoolExecutor(len(bodies)) as threads:
        list(threads.map(lambda body: asked(port, body), bodies))
    return time.perf_counter() - begin
