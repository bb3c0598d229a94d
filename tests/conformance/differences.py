"""The table of deliberate differences from vLLM, with the reason of each.

Each entry must still be a difference: an entry that no reply shows any more fails the tests.  `cases` and
`paths` are patterns; `*` is every case.  Does not depend on how differences are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from comparing import Diff


@dataclass(frozen=True)
class Difference:
    """Each of `cases` and each of `paths` is somewhere a difference; `what` is one of `Diff`'s, or any."""

    reason: str
    cases: tuple[str, ...]
    paths: tuple[str, ...]
    what: str = "*"

    def covers(self, case: str, diff: Diff) -> bool:
        return (
            any(fnmatchcase(case, pattern) for pattern in self.cases)
            and any(fnmatchcase(diff.path, pattern) for pattern in self.paths)
            and fnmatchcase(diff.what, self.what)
        )


EVERY = ("*",)
STATUS = ("status",)

FIELDS = (
    Difference("a model has llama.cpp's state", EVERY, ("data.*.status",), "extra"),
    Difference("/health has llama.cpp's body", ("gen__002*", "gen2__007*"), ("status",), "extra"),
    Difference("/health has llama.cpp's body", ("gen__002*", "gen2__007*"), ("text",), "missing"),
    Difference("a model has what mistralai reads", EVERY, ("data.*.type", "data.*.capabilities"), "extra"),
    Difference(
        "a message has its token ids as FastDeploy gives them",
        EVERY,
        ("choices.*.message.prompt_token_ids", "choices.*.message.completion_token_ids"),
        "extra",
    ),
    Difference(
        "a message has a phase or none: null is not in the specification",
        ("resp__*",),
        ("output.*.phase", "stream.events.response.output_item.*.item.phase"),
        "missing",
    ),
    Difference(
        "reasoning is text here: null for what is encrypted is not in the specification",
        ("gen2__046*",),
        ("output.*.encrypted_content",),
        "missing",
    ),
    Difference("times of a request are in /metrics, not in its reply", ("gen2__*",), ("metrics",)),
    Difference(
        "times of a request are in /metrics, not in its stream",
        ("gen2__*",),
        ("stream.fields.usage.chunk.metrics",),
        "missing",
    ),
    Difference(
        "the bytes of a token that is no whole character are sent: joined they are the text",
        ("chat__008*", "chat__009*", "chat__014*", "chat__016*", "chat__017*", "chat__089*"),
        ("*.bytes",),
        "value",
    ),
    Difference(
        "what a request added to the cache is not counted",
        ("chat__087*", "chat__088*", "tool__010*"),
        ("stream.usage.prompt_tokens_details.created_cache_tokens",),
        "missing",
    ),
    Difference(
        "cached tokens are always told",
        ("gen__116*", "gen2__*", "chat__102*"),
        ("usage.prompt_tokens_details",),
        "type",
    ),
    Difference("the last usage of a stream is that of a whole reply", EVERY, ("stream.usage.*",), "extra"),
    Difference("a reply names the model that was asked for", ("gen__113*",), ("model",), "value"),
)

RESPONSE = ("", "stream.events.*.response.")
"""Where a response stands: alone, and in the events of its stream."""


def _in_responses(*fields: str) -> tuple[str, ...]:
    return tuple(where + field for where in RESPONSE for field in fields)


RESPONSES = (
    Difference(
        "fields of a response that vLLM leaves out have the values of OpenAI's specification",
        ("resp__*", "gen2__046*", "tool__005*", "tool__006*", "tool__011*", "tool__012*"),
        _in_responses(
            *("error", "store", "prompt_cache_retention", "prompt_cache_key", "safety_identifier"),
            "completed_at",
        ),
        "extra",
    ),
    Difference(
        "fields of a response that vLLM leaves null have the values of OpenAI's specification",
        ("resp__*", "gen2__046*", "tool__005*", "tool__006*", "tool__011*", "tool__012*"),
        _in_responses("metadata", "text*", "top_logprobs"),
        "type",
    ),
    Difference(
        "a response tells its tier, not what was asked",
        ("resp__*", "gen2__046*", "tool__005*", "tool__006*", "tool__011*", "tool__012*"),
        _in_responses("service_tier"),
        "value",
    ),
    Difference(
        "a response tells the sampling that was done, by the model's defaults",
        ("gen2__046*",),
        ("top_p",),
        "value",
    ),
    Difference(
        "a message that was cut is incomplete",
        ("resp__*",),
        ("output.*.status", "stream.events.response.output_item.done.*.item.status"),
        "value",
    ),
    Difference(
        "the stream of a response that was cut ends with response.incomplete, as OpenAI's",
        ("resp__020*", "resp__022*", "resp__048*"),
        ("stream.kinds*", "stream.events.response.completed", "stream.events.response.incomplete"),
    ),
    Difference(
        "a response in the background tells that it waits",
        ("resp__048*",),
        ("stream.events.response.queued",),
        "extra",
    ),
    Difference(
        "no log-probabilities are an empty list",
        ("resp__*",),
        ("output.*.logprobs", "stream.events.*.logprobs"),
        "type",
    ),
    Difference(
        "a stream of events ends with [DONE] too",
        ("resp__*", "tool__011*", "tool__012*"),
        ("stream.done",),
        "value",
    ),
    Difference(
        "a call that was cut is a call, not a text",
        ("resp__017*",),
        ("output.0.*",),
    ),
    Difference(
        "a response tells the max_output_tokens that was asked",
        ("resp__027*",),
        ("max_output_tokens",),
        "value",
    ),
    Difference(
        "what a response added to the cache is not counted",
        ("resp__027*",),
        ("usage.input_tokens_details.cache_write_tokens",),
        "value",
    ),
    Difference("responses are stored unless the operator says otherwise", ("gen2__043*",), STATUS),
)

TEXTS = (
    Difference(
        "reasoning begins at its mark, or in the prompt: text without a mark is content",
        ("gen2__019*", "gen2__020*", "gen2__021*", "gen2__023*"),
        ("choices.0.message.*", "usage.*"),
    ),
    Difference(
        "reasoning begins at its mark in a stream too",
        ("gen2__024*",),
        ("stream.choices.0.*", "stream.usage.completion_tokens_details.*"),
    ),
    Difference(
        "reasoning begins at its mark in a response too",
        ("gen2__046*",),
        ("output.0.*", "usage.output_tokens_details.reasoning_tokens"),
    ),
    Difference("a mark that closes nothing is text", ("gen2__028*",), ("choices.0.message.content",), "type"),
)

TOOLS = (
    Difference(
        "blanks between a text and a call belong to neither",
        ("tool__017*", "tool__018*"),
        ("choices.0.message.content", "stream.choices.0.content"),
        "value",
    ),
    Difference(
        "what a request says of the whole output counts more than a function's `strict`",
        ("tool__013*", "tool__014*", "tool__019*", "tool__020*", "tool__022*"),
        (
            *("choices.0.*", "stream.choices.0.*", "usage.prompt_tokens", "usage.total_tokens"),
            "usage.completion_tokens",
        ),
    ),
    Difference(
        "a tool stands in the prompt as it was sent, without a null for what it does not have",
        ("chat__078*", "tool__002*", "tool__017*"),
        ("usage.prompt_tokens", "usage.total_tokens"),
        "value",
    ),
    Difference(
        "a required or named call obeys its function's schema, and is one even when it was cut",
        ("chat__078*", "chat__079*", "chat__080*"),
        (
            *("choices.0.message.content", "choices.0.message.tool_calls"),
            *("stream.choices.0.tool_calls.0.arguments", "stream.choices.0.finish_reason"),
        ),
    ),
    Difference(
        "a call that a schema leaves little choice of is written in the tokenizer's own tokens",
        ("tool__002*", "tool__005*", "tool__006*", "tool__011*", "tool__012*"),
        (
            "*arguments",
            "*arguments.*.delta",
            "*usage.completion_tokens",
            "*usage.output_tokens",
            "*usage.total_tokens",
        ),
        "value",
    ),
)

GRAMMARS = (
    Difference(
        "white space between the tokens of JSON has a bound, so that a weak model comes to the end of its JSON",
        ("gen__132*", "chat__056*", "chat__059*", "chat__078*", "resp__017*"),
        (
            *("choices.0.finish_reason", "choices.0.message.content"),
            *("usage.*_tokens", "status", "incomplete_details"),
        ),
    ),
    Difference(
        "what a grammar leaves no choice of is written in the tokenizer's own tokens, not one by one",
        ("gen__134*", "chat__082*", "tool__004*", "tool__010*", "tool__017*"),
        ("usage.completion_tokens", "*usage.total_tokens", "stream.usage.completion_tokens"),
        "value",
    ),
    Difference(
        "another spelling of what is forced leads to another choice where there is one",
        ("gen__132*", "tool__004*", "tool__010*"),
        ("choices.0.text", "choices.0.message.content", "stream.choices.0.content"),
        "value",
    ),
    Difference(
        "text around a structural tag is whole characters",
        ("chat__062*",),
        ("choices.0.message.content",),
        "value",
    ),
    Difference(
        "guided_choice is honoured, as older vLLM and FastDeploy do",
        ("gen__111*",),
        ("choices.0.*", "usage.*"),
        "value",
    ),
)

ERRORS = (
    Difference(
        "an error names its field where vLLM names none",
        (
            *("gen__057*", "gen__067*", "gen__072*", "gen__074*", "gen__076*", "gen__077*", "gen__098*"),
            *("gen__117*", "gen__139*", "gen__140*", "gen__141*", "gen__143*", "gen__155*", "gen__156*"),
            *(
                "chat__022*",
                "chat__024*",
                "chat__028*",
                "chat__033*",
                "chat__034*",
                "chat__064*",
                "chat__065*",
            ),
            *("gen2__030*", "gen2__031*", "resp__039*"),
            *("embed__016*", "embed__025*", "embed__03[0124]*", "embed__046*", "embed__072*", "embed__075*"),
            *("cls__009*", "cls__012*", "cls__021*", "score__016*", "bertemb__006*", "bertemb__008*"),
        ),
        ("error.param",),
        "extra",
    ),
    Difference(
        "one type for every bad request, and fields are named as the client wrote them",
        (
            *("gen__080*", "gen__088*", "gen__150*", "chat__027*", "chat__029*", "chat__031*", "chat__032*"),
            "chat__036*",
            *("gen__031*", "resp__031*", "resp__037*"),
            *("embed__01[234]*", "embed__024*", "embed__036*", "embed__050*", "embed__081*", "embed__084*"),
            *("embed__10[12]*", "score__019*"),
        ),
        ("error.type", "error.param"),
        "value",
    ),
    Difference(
        "an error names the field that the client wrote, not what it became",
        ("resp__007*", "chat__012*", "chat__037*", "gen__084*", "embed__086*"),
        ("error.param",),
        "value",
    ),
    Difference(
        "one type for every bad request",
        (
            *("gen__154*", "gen__155*", "gen__156*", "embed__048*", "embed__049*", "embed__070*"),
            *("embed__073*", "cls__022*", "cls__023*", "score__017*", "score__018*"),
        ),
        ("error.type",),
        "value",
    ),
    Difference(
        "a body that is no JSON has no field to name",
        ("gen__154*", "embed__048*", "cls__022*", "score__017*"),
        ("error.param",),
        "type",
    ),
    Difference(
        "a body as a whole has no field to name", ("embed__070*", "embed__073*"), ("error.param",), "type"
    ),
    Difference(
        "a type of content that is not JSON names its header",
        ("embed__049*", "cls__023*", "score__018*"),
        ("error.param",),
        "extra",
    ),
    Difference(
        "Cohere's clients read `message` beside the envelope",
        (
            *("embed__066*", "embed__070*", "embed__072*", "embed__073*", "embed__075*", "bertemb__008*"),
            *("gen2__017*", "gen2__018*"),
        ),
        ("message",),
        "extra",
    ),
    Difference(
        "a model of another task is told of, with those that would do",
        ("embed__110*", "embed__111*", "embed__112*", "cls__019*"),
        ("detail", "error"),
    ),
    Difference("what a model cannot do is a fault of the request", ("nomat__005*",), STATUS),
    Difference(
        "every error has OpenAI's envelope: a path that is not there",
        (
            *("gen__011*", "gen2__012*", "gen2__018*", "gen2__039*"),
            *("tool__030*", "tool__031*", "tool__033*"),
        ),
        ("detail", "error"),
    ),
    Difference(
        "every error has OpenAI's envelope: a missing key",
        ("gen2__003*", "gen2__011*", "gen2__017*"),
        ("error",),
    ),
)

POOLING = (
    Difference("padding never changes an answer", ("embed__039*",), ("data.0.embedding.*", "usage.*")),
    Difference("integers are offered too", ("embed__060*",), STATUS),
    Difference("documents may be objects with a text, as Cohere's and Jina's", ("embed__10[79]*",), STATUS),
    Difference("return_documents is honoured", ("embed__108*",), ("results.*.document",), "missing"),
    Difference(
        "a ranking is a list, and tells what Cohere's clients read",
        (
            *("embed__09[789]*", "embed__10[0468]*", "embed__117*", "score__00[68]*", "score__02[013]*"),
            *("bertscore__006*", "bertscore__009*", "bertscore__01[02]*", "bertscore__02[023]*"),
            "nomat__008*",
        ),
        ("object", "meta"),
        "extra",
    ),
    Difference(
        "tokens are told where newer clients look for them",
        ("embed__05[789]*", "embed__061*", "embed__068*", "embed__071*", "embed__074*"),
        ("meta.tokens",),
        "extra",
    ),
    Difference(
        "a model is Braid's",
        ("cls__001*", "score__001*"),
        ("data.*.owned_by", "data.*.root", "data.*.permission.*.id"),
        "value",
    ),
)

REQUESTS = (
    Difference(
        "a tokenizer is described by its tokenizer_config.json, not by an object of transformers",
        ("gen__007*",),
        (
            "tokenizer_class",
            "extra_special_tokens",
            "truncation_side",
            "name_or_path",
            "is_local",
            "local_files_only",
            "clean_up_tokenization_spaces",
        ),
    ),
)

ENDPOINTS = (
    Difference(
        "an empty answer has a content type",
        ("gen__002*", "gen__003*", "gen__014*", "gen2__007*", "gen2__014*"),
        ("content-type",),
    ),
    Difference("a key is asked for on every path but those of health", ("gen2__008*",), STATUS),
    Difference("health may be asked with HEAD, as load balancers do", ("gen__016*",), STATUS),
    Difference(
        "tokens are not turned into replies of chats, nor Responses rendered",
        ("chat__105*", "resp__049*"),
        STATUS,
    ),
    Difference("rendering, and tokens in and out, are always there", ("gen2__034*", "gen2__035*"), STATUS),
    Difference(
        "a rendered prompt has no parameters of vLLM's own handling",
        ("gen__163*", "chat__104*"),
        (
            *(
                f"*sampling_params.{name}"
                for name in ("output_kind", "skip_clone", "skip_reading_prefix_cache")
            ),
        ),
        "missing",
    ),
    Difference("conversations are not kept: a response names the one before it", ("resp__042*",), STATUS),
    Difference(
        "an adapter for models without room for any is no error of the server", ("tool__023*",), STATUS
    ),
    Difference("what is no form is refused, whether or not a model transcribes", ("tool__032*",), STATUS),
    Difference("there are no events of the cache", ("gen__012*",), STATUS),
    Difference(
        "a path that is not there is not told to a client without a key", ("gen2__037*", "gen2__038*"), STATUS
    ),
)

METRICS = (
    Difference(
        "no metrics of hardware estimates, of parts that Braid does not have, or of when a counter began",
        ("tool__034*", "gen2__009*", "embed__115*"),
        (
            *("metrics.*_created", "metrics.vllm:estimated_*", "metrics.vllm:external_prefix_cache_*"),
            *("metrics.vllm:mm_cache_*", "metrics.vllm:engine_sleep_state", "metrics.python_*"),
            *("metrics.vllm:admission_rejections_total", "metrics.vllm:prompt_tokens_cached_by_source_total"),
        ),
        "missing",
    ),
    Difference(
        "preemptions are counted, but not by request",
        ("tool__034*", "gen2__009*", "embed__115*"),
        ("metrics.vllm:request_num_preemptions",),
        "missing",
    ),
    Difference(
        "a metric is shown once it has a value",
        ("gen2__009*", "embed__115*"),
        ("metrics.vllm:*",),
        "missing",
    ),
    Difference(
        "blocks that are moved to host memory are counted",
        ("tool__034*", "gen2__009*", "embed__115*"),
        ("metrics.braid:*", "metrics.vllm:*_swapped", "metrics.vllm:cpu_cache_usage_perc"),
        "extra",
    ),
    Difference(
        "whether a model is loaded has OpenVINO Model Server's name",
        ("tool__034*", "gen2__009*", "embed__115*"),
        ("metrics.ovms_graph_loaded",),
        "extra",
    ),
)

DIFFERENCES = (
    *FIELDS,
    *RESPONSES,
    *TEXTS,
    *TOOLS,
    *GRAMMARS,
    *ERRORS,
    *POOLING,
    *REQUESTS,
    *ENDPOINTS,
    *METRICS,
)


def reason_for(case: str, diff: Diff) -> str | None:
    """Why a case differs there, where that was written down."""
    return next((each.reason for each in DIFFERENCES if each.covers(case, diff)), None)
