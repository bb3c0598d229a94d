"""The add_prompt node: the text that an embedding model expects before its input, by purpose."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from graphs.node import FilePath, Node, NodeConfig
from pipelines.base.errors import RequestError
from pipelines.nodes.interface import Loading, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PURPOSES

OTHER_NAMES = {"search_query": ("query",), "search_document": ("document", "passage")}
"""Cohere's purpose → other names of it in models."""


@dataclass(frozen=True)
class PurposePrompts:
    """The prompts of a model by purpose, and the default purpose."""

    prompts: dict[str, str]
    default: str | None = None

    def text_for(self, purpose: str | None) -> str:
        """The prompt before each text, "" for none.  Raises RequestError."""
        purpose = self.default if purpose is None else purpose
        if purpose is None:
            return ""
        names = (purpose, *OTHER_NAMES.get(purpose, ()))
        prompt = next((self.prompts[name] for name in names if name in self.prompts), None)
        if prompt is None and purpose not in PURPOSES:
            supported = ", ".join(sorted(self.prompts))
            raise RequestError(
                f"Unsupported input_type '{purpose}'. Supported values: {supported}", "input_type"
            )
        return prompt or ""


def read_prompts(path: Path) -> PurposePrompts:
    """The `task_instructions` of a config.json, or `prompts` of a config_sentence_transformers.json.

    Raises ValueError where they are no texts by name, or the default is none of them.
    """
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    prompts = config.get("task_instructions") or config.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise ValueError(f"{path.name}: prompts must be texts by purpose")
    default = config.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise ValueError(f"{path.name}: its default_prompt_name `{default}` is none of its prompts")
    return PurposePrompts(prompts, default)


class AddPrompt(Node, Planning):
    """Puts the prompt of the request's purpose before each text; token ids stay as they are."""

    class Config(NodeConfig):
        prompts: FilePath = Field(
            description="a config_sentence_transformers.json, or a config.json with task_instructions"
        )

    def load(self, resources: Loading) -> None:
        self.known: PurposePrompts = resources.shared(read_prompts, self.folder / self.config.prompts)

    def plan(self, request: Any) -> RequestPlan:
        return RequestPlan(handled=frozenset({"purpose"} if self.known.prompts else ()))

    def run(self, call: Running, prompts: list[Prompt]) -> list[Prompt]:
        if not self.known.prompts:
            return prompts
        before = self.known.text_for(call.request.purpose)
        if not before:
            return prompts
        return [each if each.text is None else replace(each, text=before + each.text) for each in prompts]
