"""The decoder_start node: what the decoder of an encoder-decoder model reads before it writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Checking, Loading, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.values.node_values import Tokens
from pipelines.values.tasks import GenerationInput

START, FORCED = "decoder_start_token_id", "forced_bos_token_id"


class DecoderStart(Node, Checking):
    """The decoder's own prompt for each text that the encoder reads: the start token, and the token with
    which every output of the model begins, if there is one.
    """

    class Config(NodeConfig):
        settings: FilePath = Field(description=f"a generation_config.json with {START}")

    def load(self, resources: Loading) -> None:
        self.ids: list[int] = resources.shared(read_start, self.folder / self.config.settings)

    def check(self, request: GenerationInput, plan: RequestPlan) -> None:
        if request.sampling.get("prompt_logprobs") is not None:
            raise RequestError(
                "this model reads the prompt with an encoder, which gives no log-probabilities; leave "
                "`prompt_logprobs` out",
                "prompt_logprobs",
            )

    def run(self, call: Running, tokens: list[Tokens]) -> list[Tokens]:
        return [replace(text, ids=list(self.ids)) for text in tokens]


def read_start(path: Path) -> list[int]:
    """Raises ValueError naming file and key."""
    fields: Any = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(fields, dict):
        raise ValueError(f"{path} holds no JSON object")
    ids = [fields.get(START), *([] if fields.get(FORCED) is None else [fields[FORCED]])]
    for name, token_id in zip((START, FORCED), ids, strict=False):
        if type(token_id) is not int or token_id < 0:
            raise ValueError(f"{path}: {name} must be a token id, got {token_id!r}")
    return ids
