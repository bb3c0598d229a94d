"""The token_labels node: scores of tokens → labels of tokens and of entities, with their places."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from graphs.node import FilePath
from pipelines.base.errors import EngineError
from pipelines.nodes.interface import Loading, Planning, Running
from pipelines.nodes.pooling.label import read_labels
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.text.tokenizing.tokenize import TokenizerNode
from pipelines.values.node_values import PooledOutputs, Prompt, TokenClasses, Tokens
from pipelines.values.stream_values import Deferred
from pipelines.values.tasks import PoolingInput


class TokenLabels(TokenizerNode, Planning):
    """Attaches the names of the classes to the scores of each token, and what entities are made of them."""

    class Config(TokenizerNode.Config):
        labels: FilePath = Field(description="a config.json with id2label, or a JSON list of names")

    def load(self, resources: Loading) -> None:
        super().load(resources)
        self.labels: list[str] = resources.shared(read_labels, self.folder / self.config.labels)

    def plan(self, request: PoolingInput) -> RequestPlan:
        return RequestPlan(handled=frozenset({"stride"}))

    def run(
        self, call: Running, scores: Deferred[PooledOutputs], tokens: list[Tokens], prompts: list[Prompt]
    ) -> Deferred[TokenClasses]:
        """Raises EngineError where the model gives no number for each label."""
        return scores.map(lambda given: self._named(given, prompts, tokens))

    def _named(self, given: PooledOutputs, prompts: list[Prompt], tokens: list[Tokens]) -> TokenClasses:
        values = given.values
        if not isinstance(values, list) or any(text.shape[1] != len(self.labels) for text in values):
            size = np.shape(values[0])[-1] if len(values) else 0
            raise EngineError(
                f"the model gives {size} numbers, but {self.config.labels} names {len(self.labels)} classes "
                "for each token"
            )
        return TokenClasses(values, self.labels, prompts, tokens, self.tokenizer)
