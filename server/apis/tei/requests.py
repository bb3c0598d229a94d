"""The request bodies of text-embeddings-inference.  It ignores fields that it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import MAX_TOKEN_ID, Items, TokenIds, Whole, check
from pipelines.requests.fields.known_fields import Refused
from pipelines.requests.pooling.base_request import BasePoolingRequest
from pipelines.requests.pooling.entities import EntityFields
from pipelines.requests.pooling.input_parsing import MAX_TEXTS
from pipelines.requests.pooling.scoring import Compared, ComparisonRequest
from pipelines.values.node_values import Prompt
from pipelines.values.tasks import PoolingInput
from server.apis.tei.errors import Empty, Invalid


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


Direction = Annotated[Literal["left", "right"], BeforeValidator(_lower)]
Strategy = Literal["none", "simple", "first", "average", "max"]
Stride = Annotated[Whole, check(lambda n: 0 <= n <= MAX_TOKEN_ID, "`{name}` must be at least 0")]
Dimensions = Annotated[Whole, check(lambda n: 0 < n <= MAX_TOKEN_ID, "`{name}` should be positive")]


class Truncation(DeferredModel):
    """What is done with a text that is too long; by default it is cut."""

    truncate: bool | None = None
    truncation_direction: Direction | None = None

    def cut(self) -> dict[str, Any]:
        """The fields of `PoolingInput`."""
        return {
            "truncate_prompt_tokens": None if self.truncate is False else -1,
            "truncate_left": self.truncation_direction == "left",
        }


class TeiRequest(BasePoolingRequest, Truncation):
    """What all bodies have; `model`, which that server does not have, selects one of several models."""

    refused: ClassVar[Mapping[str, Refused]] = {}
    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    def shared_fields(self) -> dict[str, Any]:
        return super().shared_fields() | self.cut()

    @property
    def num_chars(self) -> int:
        """Characters of all texts."""
        given = self.pooling_input()
        pairs = [prompt for pair in given.pairs for prompt in pair]
        return sum(len(prompt.text or "") for prompt in (*given.prompts, *pairs))


class EmbedRequest(TeiRequest):
    """A text, token ids, or a list of both."""

    inputs: Any
    normalize: bool = True
    prompt_name: StrictStr | None = None
    dimensions: Dimensions | None = None

    def pooling_input(self) -> PoolingInput:
        prompts = read_inputs(self.inputs)
        if self.prompt_name is not None and any(prompt.ids is not None for prompt in prompts):
            raise Invalid("`prompt_name` cannot be used with token ids", field="prompt_name")
        fields = self.shared_fields() | {"activate": self.normalize}
        return PoolingInput(prompts=prompts, dimensions=self.dimensions, purpose=self.prompt_name, **fields)


class LabelParameters(EntityFields):
    """How labels of tokens become entities, and which labels a model is to find."""

    model_config = ConfigDict(extra="ignore")
    aggregation_strategy: Strategy | None = None
    ignore_labels: Items[StrictStr] | None = None
    stride: Stride | None = None


class LabelRequest(TeiRequest, EntityFields):
    """A text or a pair of texts, which is a list of two; or a list of lists of one or two texts."""

    inputs: Any
    raw_scores: bool = False
    aggregation_strategy: Strategy | None = None
    ignore_labels: Items[StrictStr] | None = None
    stride: Stride | None = None
    parameters: LabelParameters | None = None

    @model_validator(mode="after")
    def _take_parameters(self) -> LabelRequest:
        """The fields of `parameters` are those of the body, as huggingface_hub sends them."""
        given = self.parameters
        if given is not None:
            self.aggregation_strategy = self.aggregation_strategy or given.aggregation_strategy
            for name in ("ignore_labels", "stride", *EntityFields.model_fields):
                if getattr(self, name) is None:
                    setattr(self, name, getattr(given, name))
        return self

    @property
    def is_batch(self) -> bool:
        return isinstance(self.inputs, list) and any(isinstance(each, list) for each in self.inputs)

    def pooling_input(self) -> PoolingInput:
        inputs = self.inputs if self.is_batch else [self.inputs]
        check_batch(len(inputs))
        texts = [_one_or_two(text) for text in inputs]
        if len({*map(len, texts)}) > 1:
            raise Invalid("`inputs` must be texts alone or pairs alone", field="inputs")
        prompts = [tuple(map(_prompt, pair)) for pair in texts]
        if self.stride is not None and self.aggregation_strategy in (None, "none"):
            raise Invalid("`stride` needs an `aggregation_strategy` other than none", field="stride")
        own = {"stride": self.stride, "activate": not self.raw_scores, "wanted": self.wanted()}
        fields: dict[str, Any] = self.shared_fields() | own
        if len(prompts[0]) == 2:
            return PoolingInput(pairs=prompts, **fields)  # type: ignore[arg-type]
        return PoolingInput(prompts=[prompt for (prompt,) in prompts], **fields)


class Sentences(DeferredModel):
    """One text, and those that it is compared with."""

    model_config = ConfigDict(extra="ignore")
    source_sentence: StrictStr
    sentences: Items[StrictStr]


class SimilarityParameters(Truncation):
    """The options of a comparison."""

    model_config = ConfigDict(extra="ignore")
    prompt_name: StrictStr | None = None


class SimilarityRequest(TeiRequest):
    """How similar each of several texts is to one."""

    inputs: Sentences
    parameters: SimilarityParameters = SimilarityParameters()

    def pooling_input(self) -> PoolingInput:
        given = self.inputs
        check_batch(len(given.sentences), "inputs.sentences")
        prompts = [_prompt(text) for text in (given.source_sentence, *given.sentences)]
        fields = self.shared_fields() | self.parameters.cut() | {"activate": True}
        return PoolingInput(prompts=prompts, purpose=self.parameters.prompt_name, **fields)


class RankRequest(TeiRequest, ComparisonRequest):
    """A query, and texts to rank."""

    refused: ClassVar[Mapping[str, Refused]] = {}

    query: StrictStr
    texts: Items[StrictStr]
    return_text: bool = False

    @property
    def num_chars(self) -> int:
        return len(self.query) * len(self.texts) + sum(map(len, self.texts))

    def read_compared(self) -> Compared:
        check_batch(len(self.texts), "texts")
        return Compared([self.query], [*self.texts], [])


class DecodeRequest(DeferredModel):
    """Token ids, or lists of them."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())
    model: StrictStr | None = None
    ids: Items[TokenIds] | TokenIds
    skip_special_tokens: bool = True

    @property
    def texts(self) -> list[list[int]]:
        """The ids of each text."""
        if not self.ids or isinstance(self.ids[0], int):
            return [self.ids]  # type: ignore[list-item]
        return self.ids


def check_batch(num_texts: int, name: str = "inputs") -> None:
    """Raise Empty for none, Invalid for more texts than a request may have."""
    if not num_texts:
        raise Empty(f"`{name}` cannot be empty", field=name)
    if num_texts > MAX_TEXTS:
        raise Invalid(f"batch size {num_texts} > maximum allowed batch size {MAX_TEXTS}", field=name)


def read_inputs(value: Any) -> list[Prompt]:
    """A text, token ids, or a list of both.  Raises Empty and Invalid."""
    is_one = isinstance(value, str) or (isinstance(value, list) and value and type(value[0]) is int)
    given = [value] if is_one else value
    if not isinstance(given, list):
        raise Invalid("`inputs` must be a text, token ids, or a list of these", field="inputs")
    check_batch(len(given))
    return [_prompt(each) for each in given]


def _prompt(value: Any) -> Prompt:
    if value in ("", []):
        raise Empty("`inputs` cannot be empty", field="inputs")
    if isinstance(value, str):
        return Prompt(text=value, add_special_tokens=True)
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise Invalid("`inputs` must hold texts, or lists of token ids", field="inputs")
    if not all(0 <= each <= MAX_TOKEN_ID for each in value):
        raise RequestError("`inputs` has a token id that is out of vocabulary", field="inputs")
    return Prompt(ids=value)


def _one_or_two(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    is_right = isinstance(texts, list) and len(texts) in (1, 2)
    if not is_right or not all(isinstance(text, str) for text in texts):
        raise Invalid("`inputs` must be a text, a pair of texts, or a list of lists of these", "inputs")
    return list(texts)
