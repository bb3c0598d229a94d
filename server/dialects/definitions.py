"""The dialects of many endpoints: OpenAI with vLLM's extensions, and OpenVINO Model Server."""

from __future__ import annotations

from dataclasses import replace

from pipelines.values.tasks import GenerationInput
from server.dialects import ovms, ovms_embeddings, ovms_images, ovms_rerank, ovms_responses, ovms_speech
from server.dialects.dialect import Body, BodyRules, Dialect
from server.dialects.ovms_body import read_ovms_body
from server.schema.plain_errors import plain_error
from server.schema.reply_models import envelope


def _transform_generation_body(body: Body) -> Body:
    """`best_of` selects beam search; streams include their stop strings."""
    if (body.get("best_of") or 1) > 1:
        body["use_beam_search"] = True
    if body.get("stream"):
        body.setdefault("include_stop_str_in_output", True)
    return body


def _transform_generation(generation: GenerationInput) -> GenerationInput:
    """Sampling is on unless the temperature is 0; the default length limit is the model's context."""
    fallbacks = {"top_k": ovms.DEFAULT_TOP_K}
    return replace(generation, default_max_tokens=None, samples_always=True, fallbacks=fallbacks)


OPENAI = Dialect("openai", envelope, error_words=True)
OVMS = Dialect(
    "ovms",
    plain_error,
    statuses={405: 406},
    read=read_ovms_body,
    bodies={
        "chat": BodyRules(
            (*ovms.GENERATION, *ovms.CHAT, *ovms_images.PARTS),
            (*ovms.CHAT_TOGETHER, *ovms.GENERATION_TOGETHER),
            _transform_generation_body,
            ovms_images.translate_error,
        ),
        "completion": BodyRules(
            (*ovms.GENERATION, *ovms.COMPLETION),
            (*ovms.COMPLETION_TOGETHER, *ovms.GENERATION_TOGETHER),
            _transform_generation_body,
        ),
        "responses": BodyRules(
            (*ovms.GENERATION, *ovms_responses.RESPONSES),
            (*ovms_responses.RESPONSES_TOGETHER, *ovms.GENERATION_TOGETHER),
            _transform_generation_body,
            ovms_images.translate_error,
        ),
        "embeddings": BodyRules(
            tuple(ovms_embeddings.EMBEDDINGS),
            tuple(ovms_embeddings.EMBEDDINGS_TOGETHER),
            translate_error=ovms_embeddings.translate_error,
        ),
        "speech": BodyRules(
            (*ovms_speech.SPEECH,), (*ovms_speech.SPEECH_TOGETHER,), ovms_speech.transform_speech
        ),
        "rerank": BodyRules(
            (*ovms_rerank.RERANK,), (*ovms_rerank.RERANK_TOGETHER,), ovms_rerank.transform_rerank
        ),
    },
    transform_generation=_transform_generation,
)
