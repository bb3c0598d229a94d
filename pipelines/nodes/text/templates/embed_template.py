"""The embed_template node: texts and conversations → prompts as an embedding model was trained on them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from graphs.node import FilePath
from pipelines.nodes.interface import Loading, Planning, Running
from pipelines.nodes.request_plan import RequestPlan
from pipelines.nodes.text.add_prompt import PurposePrompts, read_prompts
from pipelines.nodes.text.templates.chat_template import ChatTemplate, as_prompt
from pipelines.nodes.text.templates.jinja_template import Template
from pipelines.nodes.text.templates.request_template import RequestTemplate
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput, PromptInput


class EmbedTemplate(ChatTemplate, Planning):
    """Renders each input of a request for vectors as one prompt: a text as the message of a user, below an
    instruction, up to where a reply would begin.

    Conversations with a system message keep it; token ids pass through unchanged.
    """

    class Config(ChatTemplate.Config):
        instruction: str = Field(default="", description="system message of inputs without one")
        prompts: FilePath | None = Field(
            default=None,
            description="a config_sentence_transformers.json, whose prompts by purpose are instructions too",
        )

    def load(self, resources: Loading) -> None:
        super().load(resources)
        path = self.config.prompts
        self.known: PurposePrompts = (
            resources.shared(read_prompts, self.folder / path) if path else PurposePrompts({})
        )

    def plan(self, request: Any) -> RequestPlan:
        return RequestPlan(handled=frozenset({"purpose"} if self.known.prompts else ()))

    def run(self, call: Running, request: PromptInput) -> list[Prompt]:
        """Raises RequestError."""
        assert isinstance(request, PoolingInput), "of a task that gives vectors"
        template = self.template_for(request)
        return [self.as_message(template, request, each) for each in request.prompts] + self.conversations(
            request
        )

    def as_message(
        self, template: Template | RequestTemplate, request: PoolingInput, prompt: Prompt
    ) -> Prompt:
        if prompt.text is None:
            return prompt
        text = self.rendered(template, request, [{"role": "user", "content": prompt.text}])
        return as_prompt(text, prompt.add_special_tokens and self.needs_special_tokens(text))

    def rendered(
        self, template: Template | RequestTemplate, request: PromptInput, messages: list[dict[str, Any]]
    ) -> str:
        """Renders messages with an instruction where they have none."""
        instruction = self.known.text_for(getattr(request, "purpose", None)) or self.config.instruction
        if instruction and not any(each["role"] == "system" for each in messages):
            messages = [{"role": "system", "content": instruction}, *messages]
        return super().rendered(template, request, messages)

    def begins_reply(self, request: PromptInput) -> bool:
        given = request.add_generation_prompt
        return not request.continue_final_message if given is None else given
