"""The dialects: OpenAI's with vLLM's words, OpenVINO Model Server's; Anthropic's and Cohere's errors.

Data, and what a body of OpenVINO Model Server stands for.
"""

from __future__ import annotations

from pipelines.errors import BraidError
from pipelines.tasks import GenerationInput
from server.dialects import ovms, ovms_embeddings, ovms_rerank, ovms_responses
from server.dialects.cohere import told
from server.dialects.dialect import Body, BodyRules, Dialect
from server.generation.replies.schema import PlainError, envelope
from server.messages.errors import fault


def plain(error: BraidError) -> PlainError:
    """OpenVINO Model Server's: {"error": text}."""
    return PlainError(error=error.message)


def _means(body: Body) -> Body:
    """`best_of` asks for beams; streams keep their stop strings."""
    if (body.get("best_of") or 1) > 1:
        body["use_beam_search"] = True
    if body.get("stream"):
        body.setdefault("include_stop_str_in_output", True)
    return body


def _amend(generation: GenerationInput) -> GenerationInput:
    """Sampling is on unless the temperature is 0, and text goes on as far as the model can."""
    generation.default_max_tokens = None
    generation.samples_always = True
    generation.fallbacks = {"top_k": ovms.DEFAULT_TOP_K}
    return generation


OPENAI = Dialect("openai", envelope)
ANTHROPIC = Dialect("anthropic", fault)
COHERE = Dialect("cohere", told)
OVMS = Dialect(
    "ovms",
    plain,
    statuses={405: 406},
    bodies={
        "chat": BodyRules(
            (*ovms.GENERATION, *ovms.CHAT), (*ovms.CHAT_TOGETHER, *ovms.GENERATION_TOGETHER), _means
        ),
        "completion": BodyRules(
            (*ovms.GENERATION, *ovms.COMPLETION),
            (*ovms.COMPLETION_TOGETHER, *ovms.GENERATION_TOGETHER),
            _means,
        ),
        "responses": BodyRules(
            (*ovms.GENERATION, *ovms_responses.RESPONSES),
            (*ovms_responses.RESPONSES_TOGETHER, *ovms.GENERATION_TOGETHER),
            _means,
        ),
        "embeddings": BodyRules(
            tuple(ovms_embeddings.EMBEDDINGS),
            tuple(ovms_embeddings.EMBEDDINGS_TOGETHER),
            tell=ovms_embeddings.tell,
        ),
        "rerank": BodyRules(
            (*ovms_rerank.RERANK,), (*ovms_rerank.RERANK_TOGETHER,), ovms_rerank.rerank_means
        ),
    },
    amend=_amend,
)
