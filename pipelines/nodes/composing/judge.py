"""A judge of texts: a classifier by its labels, or a guard model by the verdict that it writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from graphs.errors import hint
from graphs.graph import Binding, Graph, SettingError
from pipelines.base.cancellation import WorkCancelled
from pipelines.base.errors import EngineError, RequestError
from pipelines.nodes.composing.client_texts import Conversation
from pipelines.nodes.composing.passed_reply import answer_of
from pipelines.nodes.composing.text_parts import MAX_PARTS, SHORT_CHARS, parts_of
from pipelines.nodes.interface import Composer, NamedGraph, NamesGraph
from pipelines.nodes.naming import nodes_of
from pipelines.nodes.pooling.label import read_labels
from pipelines.nodes.text.parsers.guards import GUARDS, GuardFormat
from pipelines.nodes.text.parsers.verdicts import read_verdict, verdict_request
from pipelines.values.node_values import Classes, Prompt
from pipelines.values.tasks import GenerationInput, PoolingInput


class Judge:
    """Reads texts by the graph of a classifier, or of a guard model.

    `labels` are those that are refused; None: those that the graph says are harmful.  A text is refused where
    the probability of one, or of a guard's unsafe word, is `threshold` or more.
    """

    def __init__(self, graph: NamedGraph, labels: Collection[str] | None, threshold: float) -> None:
        self._graph = graph
        self._threshold = threshold
        nodes = list(nodes_of(graph))
        guards = [getattr(node.config, "guard", None) for node in nodes]
        self._guard = next((GUARDS[name] for name in guards if name is not None), None)
        self._nodes = nodes
        self.sees = self._guard is not None and any(hasattr(node.config, "max_images") for node in nodes)
        """Whether the judge reads images of the conversation."""
        harmful = (getattr(node.config, "moderation", None) for node in nodes)
        self._labels = next((list(named) for named in harmful if named), []) if labels is None else labels
        self._tokenizers = [node.tokenizer for node in nodes if hasattr(node, "tokenizer")]

    async def parts(self, texts: Sequence[str]) -> list[str]:
        """Texts as a classifier reads each of them whole: a long one in parts.  Raises RequestError."""
        parts, most = list(texts), self._graph.max_context
        if self._guard is not None or not most:
            return parts
        for tokenizer in self._tokenizers:
            if sum(map(len, parts)) <= SHORT_CHARS:
                parts = parts_of(parts, tokenizer, most)
            else:
                parts = await asyncio.to_thread(parts_of, parts, tokenizer, most)
        if len(parts) > MAX_PARTS:
            raise RequestError("the text is too long to be judged", "messages")
        return parts

    async def fault(self, call: Composer, texts: Sequence[str], conversation: Conversation) -> str | None:
        """Why texts are refused; None where they are not.  A guard model reads the conversation, whose last
        message it judges, and a classifier each of the texts.  Raises BraidError, and WorkCancelled where the
        call was closed meanwhile.
        """
        if self._guard is not None:
            return await self._by_verdict(call, self._guard, conversation)
        return await self._by_labels(call, texts) if texts else None

    async def _by_labels(self, call: Composer, texts: Sequence[str]) -> str | None:
        prompts = [Prompt.of_text(text) for text in texts]
        asked = await call.ask(self._graph, PoolingInput(prompts=prompts, truncate_prompt_tokens=-1))
        classes: Classes = await answer_of(asked)
        check_labels(self._labels, classes.labels)
        shares = classes.values.max(axis=0)
        found = {label: float(shares[classes.labels.index(label)]) for label in self._labels}
        worst = max(found, key=lambda label: found[label])
        return f"{worst} {found[worst]:.3f}" if found[worst] >= self._threshold else None

    async def _by_verdict(self, call: Composer, guard: GuardFormat, conversation: Conversation) -> str | None:
        """The model is asked once for each of its rules; a reply without a verdict refuses."""
        shown = GenerationInput(messages=conversation.messages, images=conversation.images)
        asks = (self._verdict(call, guard, shown, name, rule) for name, rule in guard.rules)
        return next((fault for fault in await asyncio.gather(*asks) if fault), None)

    async def _verdict(
        self,
        call: Composer,
        guard: GuardFormat,
        shown: GenerationInput,
        name: str | None,
        rule: Mapping[str, Any],
    ) -> str | None:
        asked = await call.ask(self._graph, verdict_request(guard, shown, rule, self._nodes))
        reply = await asked.reply()
        if reply.finish == "abort":
            raise WorkCancelled
        verdict = read_verdict(guard, reply.text, reply.logprobs)
        if verdict is None:
            return "no verdict"
        is_refused = verdict.is_unsafe or verdict.score >= self._threshold
        harms = verdict.names if name is None else [name]
        return f"{', '.join(harms) or 'unsafe'} {verdict.score:.3f}" if is_refused else None


def check_labels(labels: Collection[str], known: Sequence[str]) -> None:
    """Raise EngineError where the classifier has no such label."""
    if wrong := [label for label in labels if label not in known]:
        raise EngineError(f"the classifier has no label `{wrong[0]}`{hint(wrong[0], known, 'labels')}")


def check_judge(graph: Callable[[str], Graph], name: str, labels: Sequence[str] | None) -> None:
    """Raise SettingError where `name` is neither a guard model, nor a classifier with labels to refuse."""
    model = graph(name)
    check = _check_guard if model.task == "chat" else _check_labels
    check(graph, model, name, labels)


def _check_labels(
    graph: Callable[[str], Graph], model: Graph, name: str, labels: Sequence[str] | None
) -> None:
    line = _line_of(graph, model, "label")
    if line is None:
        raise SettingError(f"the graph of `{name}` has no label line, by whose labels a judge goes", "by")
    if labels is None and not line[1].config.moderation:
        raise SettingError(
            f"`labels` is missing: which labels of `{name}` are refused; its label line has no `moderation`"
        )
    known = _known_labels(*line)
    for at, label in enumerate(labels or ()):
        if known and label not in known:
            raise SettingError(f"`{name}` has no label `{label}`{hint(label, known, 'labels')}", "labels", at)


def _check_guard(
    graph: Callable[[str], Graph], model: Graph, name: str, labels: Sequence[str] | None
) -> None:
    line = _line_of(graph, model, "parse_reply")
    if line is None or line[1].config.guard is None:
        raise SettingError(
            f"`{name}` is no guard model: its parse_reply line has no `guard`; name one, or a classifier",
            "by",
        )
    if labels is not None:
        raise SettingError(f"`labels` are those of classifiers; `{name}` is a guard model", "labels")


def _line_of(graph: Callable[[str], Graph], model: Graph, type_name: str) -> tuple[Graph, Binding] | None:
    """The first line of a type in a graph, or in those that it names, with its graph."""
    for line in model.bindings:
        if line.type_name == type_name:
            return model, line
        names = line.type.names(line.config) if issubclass(line.type, NamesGraph) else ()
        inner = (_line_of(graph, graph(name), type_name) for name in names)
        if found := next((line for line in inner if line is not None), None):
            return found
    return None


def _known_labels(model: Graph, line: Binding) -> list[str]:
    """The labels of a label line; [] where its folder is not at hand."""
    if model.folder is None:
        return []
    try:
        return read_labels(model.folder / line.config.labels)
    except (OSError, ValueError):
        return []  # a problem of that graph, which says so itself
