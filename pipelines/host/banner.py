"""What a person sees when the server is ready: where it is, what it serves, and a first call to paste.

Pure text from a Status; prints nothing, opens nothing.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from pipelines.wire.messages import ModelStatus, Status, TensorSpec

PLACEHOLDER_KEY = "YOUR_API_KEY"
MAX_PROBLEM = 120
"""Letters of a problem that are shown; `braid check` and the log have the rest."""


def banner(status: Status, models: Path, url: str, needs_key: bool, model: str | None) -> str:
    """The whole text.  `model` answers chat requests; None: no model does, and no call is shown.

    `models` is the repository.
    """
    lines = [f"Braid is ready at {url}", ""]
    if not any(entry.state == "ready" for entry in status.models):
        lines = [f"Braid is at {url}, but no model is ready", ""]
    width = max((len(entry.name) for entry in status.models), default=0)
    lines += [f"  {entry.name:<{width}}  {_state(entry, models)}" for entry in status.models]
    if not status.models:
        lines.append(f"  {models} holds no model: put a GGUF file or an exported model there (braid export)")
    if model is not None:
        lines += ["", *_curl(url, needs_key, model), "", *_python(url, needs_key, model)]
    return "\n".join(["", *lines, ""])


def _state(entry: ModelStatus, models: Path) -> str:
    if entry.state == "ready":
        if entry.inputs:
            return f"ready   {_names(entry.inputs)} → {_names(entry.outputs)}"
        cache = f", cache {entry.cache_tokens:,} tokens" if entry.cache_tokens else ""
        adapters = ", ".join(adapter.name for adapter in entry.adapters if not adapter.problem)
        cache += f", adapters {_short(adapters)}" if adapters else ""
        return f"ready   context {entry.max_context:,} tokens{cache}" if entry.max_context else "ready"
    if entry.state == "failed":
        return f"failed  {_short(entry.problems[0])}   (run: braid check {shlex.quote(str(models))})"
    return entry.state


def _names(tensors: list[TensorSpec]) -> str:
    return _short(", ".join(tensor.name for tensor in tensors))


def _short(problem: str) -> str:
    line = problem.splitlines()[0]
    return line if len(line) <= MAX_PROBLEM else line[: MAX_PROBLEM - 1] + "…"


def _curl(url: str, needs_key: bool, model: str) -> list[str]:
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    header = [f'    -H "Authorization: Bearer {PLACEHOLDER_KEY}" \\'] if needs_key else []
    return [
        f"  curl {url}/v1/chat/completions \\",
        *header,
        '    -H "Content-Type: application/json" \\',
        f"    -d '{body}'",
    ]


def _python(url: str, needs_key: bool, model: str) -> list[str]:
    key = PLACEHOLDER_KEY if needs_key else "none"
    return [
        "from openai import OpenAI",
        f'client = OpenAI(base_url="{url}/v1", api_key="{key}")',
        f'reply = client.chat.completions.create(model="{model}", '
        'messages=[{"role": "user", "content": "Hello!"}])',
        "print(reply.choices[0].message.content)",
    ]
