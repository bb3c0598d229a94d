"""The fields of requests for entities, which POST pooling has among its own, and the body of POST gliner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import Items, Number, at_most, check, field_error, listed
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.pooling.base_request import BasePoolingRequest
from pipelines.requests.pooling.input_parsing import check_total_chars
from pipelines.requests.pooling.unsupported_fields import REFUSED
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import LabelSet, PoolingInput, WantedEntities

MAX_LABELS, MAX_LABEL_CHARS = 256, 1024
"""The most labels of a request, and characters of each name and description."""
MAX_LABELED_TEXTS = 1024
"""The most texts of a request that have labels of their own."""
OneSet = list[str] | dict[str, str]


def _label_or_labels(value: Any) -> Any:
    """An item of `labels`.  Raises PydanticCustomError."""
    texts = label_texts(value) if isinstance(value, (list, dict)) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise field_error(f"must be a string, or a list or an object of strings, got {quoted(value)}")
    return value


Labels = Annotated[
    Items[Annotated[StrictStr | Items[StrictStr] | dict[str, StrictStr], BeforeValidator(_label_or_labels)]]
    | dict[str, StrictStr],
    at_most(MAX_LABELED_TEXTS, "labels"),
    BeforeValidator(listed),
    check(
        lambda labels: is_of_each(labels) or not any(isinstance(label, (list, dict)) for label in labels),
        "{name} must hold texts alone, or a list or an object for each text",
    ),
    check(lambda labels: all(map(len, sets_of(labels))), "{name} must name at least one label"),
    check(
        lambda labels: all(len(own) <= MAX_LABELS for own in sets_of(labels)),
        f"{{name}} may hold {MAX_LABELS} labels at most.",
    ),
    check(
        lambda labels: all(
            0 < len(text) <= MAX_LABEL_CHARS for own in sets_of(labels) for text in label_texts(own)
        ),
        f"{{name}}: each must have 1 to {MAX_LABEL_CHARS} characters",
    ),
]
"""Names of labels, or an object of names, each with what the model reads of it; or a list of these, one for
each text.
"""
OPTIONS = ("threshold", "flat_ner", "multi_label")
"""Fields that say how spans are chosen, which mean nothing without labels."""


def is_of_each(labels: Any) -> bool:
    """Whether each text has labels of its own."""
    is_list = isinstance(labels, list) and bool(labels)
    return is_list and all(isinstance(own, (list, dict)) for own in labels)


def sets_of(labels: Any) -> list[OneSet]:
    """The labels of each text, or those of all texts as the only one."""
    return labels if is_of_each(labels) else [labels]


def label_texts(labels: OneSet) -> list[str]:
    """All texts of the labels, names and descriptions."""
    return [*labels, *labels.values()] if isinstance(labels, dict) else labels


def _label_set(labels: OneSet) -> LabelSet:
    """Raises RequestError for equal descriptions."""
    names = tuple(dict.fromkeys(labels))
    prompts = tuple(labels.values()) if isinstance(labels, dict) else names
    if len({*prompts}) < len(prompts):
        raise RequestError("`labels`: two of them have the same description; give each its own", "labels")
    return LabelSet(names, prompts)


class EntityFields(DeferredModel):
    """The labels that a request wants found, and how spans are chosen; the names are those of `gliner`."""

    labels: Labels | None = None
    threshold: (
        Annotated[Number, check(lambda p: 0 <= p <= 1, "{name} must be in [0, 1], got {got}.")] | None
    ) = None
    flat_ner: bool | None = None
    multi_label: bool | None = None

    def wanted(self) -> WantedEntities | None:
        """None without labels.  Raises RequestError for options without them, and for equal descriptions."""
        if self.labels is None:
            for name in OPTIONS:
                if getattr(self, name) is not None:
                    raise RequestError(f"`{name}` needs `labels`; name some, or leave it out", name)
            return None
        return WantedEntities(
            tuple(map(_label_set, sets_of(self.labels))),
            0.5 if self.threshold is None else self.threshold,
            self.flat_ner is not False,
            self.multi_label is True,
            is_of_each(self.labels),
        )


NO_RELATIONS = Refused("models that find relations between entities are not served")


class EntityRequest(BasePoolingRequest, EntityFields):
    """One text, and the labels that are to be found in it; a text that is too long is cut."""

    refused: ClassVar[Mapping[str, Refused]] = {
        **REFUSED,
        "relations": NO_RELATIONS,
        "relation_threshold": NO_RELATIONS,
        "adapter_id": Refused("models of entities have no adapters"),
    }

    text: StrictStr

    def pooling_input(self) -> PoolingInput:
        wanted = self.wanted()
        if wanted is None:
            raise RequestError("`labels` is required: name what is to be found in the text", "labels")
        check_total_chars([len(self.text)], "text")
        fields = self.shared_fields()
        if self.truncate_prompt_tokens is None:
            fields["truncate_prompt_tokens"] = -1
        return PoolingInput(prompts=[Prompt.of_text(self.text)], wanted=wanted, **fields)
