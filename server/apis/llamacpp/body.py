"""The body of llama.cpp's completion and infill, and the completion that it becomes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, PrivateAttr, StrictBool, StrictStr, ValidationError

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.known_fields import Refused, check_fields
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.requests.generation.prompts import gap_prompt, token_ids
from pipelines.values.node_values import Gap, Prompt

FIELDS = {
    "model": "model",
    "stream": "stream",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repeat_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "stop": "stop",
    "seed": "seed",
    "grammar": "grammar",
    "json_schema": "json_schema",
    "ignore_eos": "ignore_eos",
    "top_n_sigma": "top_n_sigma",
    "typical_p": "typical_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
    "dry_penalty_last_n": "dry_penalty_last_n",
    "dry_sequence_breakers": "dry_sequence_breakers",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
    "n_cmpl": "n",
    "n": "n",
}
"""Field of a body → that of a completion, with the same meaning."""
SAMPLERS: Mapping[str, tuple[str, float]] = {
    "top_k": ("top_k", 0),
    "top_p": ("top_p", 1.0),
    "min_p": ("min_p", 0.0),
    "temperature": ("temperature", 1.0),
    "typ_p": ("typical_p", 1.0),
    "top_n_sigma": ("top_n_sigma", -1.0),
    "xtc": ("xtc_probability", 0.0),
    "dry": ("dry_multiplier", 0.0),
}
"""Name of a sampler → the parameter that it reads, and the value with which it does nothing."""
PENALTIES = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
LETTERS = {
    "k": "top_k",
    "p": "top_p",
    "m": "min_p",
    "t": "temperature",
    "e": "penalties",
    "y": "typ_p",
    "s": "top_n_sigma",
    "x": "xtc",
    "d": "dry",
}
ONE_SLOT = "requests have no slots of their own: equal prompt beginnings are found in any"
ORDER = "the order of samplers is fixed"
IGNORED = {
    "id_slot": ONE_SLOT,
    "n_cache_reuse": ONE_SLOT,
    "n_keep": "a full context ends the text; nothing is discarded",
    "n_discard": "a full context ends the text; nothing is discarded",
    "repeat_last_n": "penalties look at the whole text",
    "penalty_last_n": "penalties look at the whole text",
    "min_keep": "a sampler always keeps the likeliest token",
    "t_max_prompt_ms": "llama.cpp does not implement it either",
    "return_progress": "a stream begins with the first token",
    "timings_per_token": "the last event has the times",
    "sse_ping_interval": "comments are sent while there is no data",
    "slot_id": ONE_SLOT,
}
REFUSED = {
    "lora": Refused("an adapter is chosen by its name as `model`", ([],)),
    "post_sampling_probs": Refused("probabilities are those before sampling", (False,)),
}
Whole = Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]


class SamplingBody(DeferredModel):
    """What completion and infill have in common.  Null means: not set."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    ignored: ClassVar[Mapping[str, str]] = IGNORED
    refused: ClassVar[Mapping[str, Refused]] = REFUSED

    model: StrictStr | None = None
    stream: StrictBool | None = None
    prompt: Any = None
    n_predict: Whole | None = None
    max_tokens: Whole | None = None
    temperature: float | None = None
    top_k: Whole | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_n_sigma: float | None = None
    typical_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: Whole | None = None
    dry_penalty_last_n: Whole | None = None
    dry_sequence_breakers: list[StrictStr] | None = None
    mirostat: Whole | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    stop: list[StrictStr] | StrictStr | None = None
    seed: Whole | None = None
    n_probs: Whole | None = None
    cache_prompt: StrictBool | None = None
    return_tokens: StrictBool | None = None
    response_fields: list[StrictStr] | None = None
    samplers: list[StrictStr] | StrictStr | None = None
    grammar: StrictStr | None = None
    json_schema: Any = None
    ignore_eos: StrictBool | None = None
    logit_bias: Any = None
    n_indent: Whole | None = None
    t_max_predict_ms: Whole | None = None
    n_cmpl: Whole | None = None
    n: Whole | None = None

    def prompts(self, room: int) -> list[Prompt]:
        """The prompts, for a model that takes `room` tokens of them.  Raises RequestError."""
        raise NotImplementedError

    def request(self) -> LlamaCompletion:
        """The completion that this is.  Raises RequestError."""
        check_fields(self.model_extra or {}, type(self).model_fields, self.refused, self.ignored)
        try:
            completion = LlamaCompletion.model_validate(self._fields())
        except ValidationError as error:
            raise from_validation(error) from None
        completion._source = self
        return completion

    def _fields(self) -> dict[str, Any]:
        same = {name: getattr(self, own) for own, name in FIELDS.items() if getattr(self, own) is not None}
        fields = same | self._switched_off() | self._biases() | {"prompt": "-"}
        if self.mirostat:  # it replaces the samplers that leave tokens out
            fields |= {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
        if (fields.get("temperature") or 0) < 0:
            fields["temperature"] = 0
        if self.n_probs:
            fields["logprobs"] = self.n_probs
        if self.cache_prompt is False:
            fields["cache_salt"] = secrets.token_hex(8)
        return fields

    @property
    def num_tokens(self) -> int | None:
        """How long the text may be where the context allows it; None: as long as that.  A request for none
        computes the prompt."""
        wanted = self.max_tokens if self.n_predict is None else self.n_predict
        return None if wanted is None or wanted < 0 else max(wanted, 1)

    @property
    def only_prompt(self) -> bool:
        return (self.max_tokens if self.n_predict is None else self.n_predict) == 0

    def _switched_off(self) -> dict[str, Any]:
        """The parameters of samplers that are not in the list, with values that do nothing."""
        if self.samplers is None:
            return {}
        letters = isinstance(self.samplers, str)
        names = {LETTERS.get(letter) for letter in self.samplers} if letters else {*self.samplers}
        off = {field: neutral for name, (field, neutral) in SAMPLERS.items() if name not in names}
        return off | ({} if "penalties" in names else PENALTIES)

    def _biases(self) -> dict[str, Any]:
        """`logit_bias` as an object, of pairs of an id and a number; false: the token must not be.

        Raises RequestError.
        """
        if not self.logit_bias:
            return {}
        biases = self.logit_bias.items() if isinstance(self.logit_bias, dict) else self.logit_bias
        try:
            pairs = {str(int(token)): -100.0 if bias is False else float(bias) for token, bias in biases}
        except (TypeError, ValueError, OverflowError):
            raise RequestError("logit_bias: pairs of a token id and a number", field="logit_bias") from None
        return {"logit_bias": pairs}


class LlamaCompletion(CompletionRequest):
    """A body as a completion.  A text ends at the context, however long it may be."""

    _source: SamplingBody = PrivateAttr()
    _room: int = PrivateAttr(default=0)

    @property
    def source(self) -> SamplingBody:
        return self._source

    @property
    def default_max_tokens(self) -> int | None:  # type: ignore[override]
        return self._source.num_tokens

    def check(self, max_context: int) -> None:
        super().check(max_context)
        self._room = max_context - min(self._source.num_tokens or 1, max_context // 2) - 1

    def _prompts(self) -> list[Prompt]:
        return self._source.prompts(self._room)


class CompletionBody(SamplingBody):
    """The body of completion."""

    def prompts(self, room: int) -> list[Prompt]:
        if self.prompt is None:
            raise RequestError('"prompt" is required', field="prompt")
        several = isinstance(self.prompt, list) and not any(isinstance(part, int) for part in self.prompt)
        return [_prompt(each) for each in (self.prompt if several and self.prompt else [self.prompt])]


def _prompt(wanted: Any) -> Prompt:
    """A text, ids, or an object with a text.  Raises RequestError."""
    if isinstance(wanted, dict) and not wanted.get("multimodal_data"):
        wanted = wanted.get("prompt_string")
    if isinstance(wanted, str) and wanted:
        return Prompt(text=wanted, add_special_tokens=True)
    if isinstance(wanted, list) and wanted and all(type(token) is int for token in wanted):
        return Prompt(ids=token_ids(wanted, "prompt"))
    raise RequestError("prompt: a text that is not empty, token ids, or a list of these", field="prompt")


class ExtraText(DeferredModel):
    """A text of another file."""

    model_config = ConfigDict(extra="ignore")
    text: StrictStr | None = None
    filename: StrictStr = "tmp"


class InfillBody(SamplingBody):
    """The body of infill."""

    input_prefix: StrictStr | None = None
    input_suffix: StrictStr | None = None
    input_extra: list[ExtraText] | None = None

    def prompts(self, room: int) -> list[Prompt]:
        for name in ("input_prefix", "input_suffix"):
            if getattr(self, name) is None:
                raise RequestError(f'"{name}" is required', field=name)
        if any(extra.text is None for extra in self.input_extra or []):
            fault = 'extra_context chunk must contain a "text" field with a string value'
            raise RequestError(fault, field="input_extra")
        if not isinstance(self.prompt, str | None):
            raise RequestError('"prompt" must be a string', field="prompt")
        others = tuple((extra.filename, extra.text or "") for extra in self.input_extra or [])
        prefix, suffix = (self.input_prefix or "") + (self.prompt or ""), self.input_suffix or ""
        return [gap_prompt(Gap(prefix, suffix, others, room, "infill"))]
