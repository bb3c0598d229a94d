"""`error.code` as OpenAI's client reads it: vLLM's number, or OpenAI's word."""

import asyncio

import httpx
import openai
import pytest
from asgi_client import AsgiClient

from pipelines.base.errors import ContextTooLong, EngineError

HI = [{"role": "user", "content": "hi"}]
CASES = {
    "model": ({"model": "nope"}, openai.NotFoundError, "model_not_found"),
    "context": ({"model": "tiny"}, openai.BadRequestError, "context_length_exceeded"),
    "missing": ({"extra_body": {"messages": None}}, openai.BadRequestError, "missing_required_parameter"),
    "type": ({"top_p": "much"}, openai.BadRequestError, "invalid_type"),
    "refused": ({"audio": {"voice": "x", "format": "wav"}}, openai.BadRequestError, "unsupported_parameter"),
    "engine": ({"model": "tiny"}, openai.InternalServerError, None),
}
RAISED = {"context": ContextTooLong("too long", "messages"), "engine": EngineError("the step failed")}


def refused(rig, key="none", path="/v1", **fields):
    """The error that OpenAI's client raises for a chat."""

    async def scenario(ours):
        http = httpx.AsyncClient(transport=httpx.ASGITransport(rig.app))
        client = openai.AsyncOpenAI(
            base_url="http://test" + path, api_key=key, http_client=http, max_retries=0
        )
        try:
            stream = await client.chat.completions.create(**{"model": "tiny", "messages": HI, **fields})
            async for _ in stream:
                pass
        except openai.APIError as error:
            return error

    async def whole():
        async with AsgiClient(rig.app) as ours:
            return await scenario(ours)

    return asyncio.run(whole())


@pytest.mark.parametrize("codes", ["vllm", "openai"])
@pytest.mark.parametrize("case", CASES)
def test_a_refusal_has_its_code(make_rig, case, codes):
    fields, kind, word = CASES[case]
    rig = make_rig(error_codes=codes)
    rig.pipeline.batches = [RAISED.get(case)]
    error = refused(rig, **fields)
    assert type(error) is kind
    assert error.code == (word if codes == "openai" else str(error.status_code))


@pytest.mark.parametrize(("codes", "code"), [("vllm", "401"), ("openai", "invalid_api_key")])
def test_an_unknown_key_has_its_code(make_rig, codes, code):
    error = refused(make_rig(error_codes=codes, api_keys=("secret",)), key="wrong")
    assert (type(error), error.code) == (openai.AuthenticationError, code)


@pytest.mark.parametrize(("codes", "code"), [("vllm", "429"), ("openai", "rate_limit_exceeded")])
def test_a_full_server_has_its_code(make_rig, codes, code):
    rig = make_rig(error_codes=codes, max_concurrency=1)
    rig.services.admission.enter()
    error = refused(rig)
    assert (type(error), error.code) == (openai.RateLimitError, code)


@pytest.mark.parametrize(("codes", "code"), [("vllm", "400"), ("openai", "context_length_exceeded")])
def test_an_error_in_a_stream_has_its_code(make_rig, codes, code):
    rig = make_rig(error_codes=codes)
    rig.pipeline.batches = [*rig.pipeline.batches[:1], ContextTooLong("too long", "messages")]
    assert refused(rig, stream=True).code == code


def test_other_dialects_have_no_words(make_rig):
    rig = make_rig(error_codes="openai")
    rig.pipeline.batches = [*rig.pipeline.batches[:1], ContextTooLong("too long", "messages")]
    body = {"model": "tiny", "messages": HI, "stream": True, "max_tokens": 5}
    assert rig.post("/v3/chat/completions", body).events[-2]["error"]["code"] == 400
    assert rig.post("/v3/chat/completions", {**body, "model": "nope"}).json == {
        "error": "The model `nope` does not exist; models: tiny"
    }
    assert "code" not in rig.post("/v1/messages", {**body, "model": "nope"}).error


@pytest.mark.parametrize(
    ("method", "path", "word"),
    [
        ("GET", "/v1/nope", "unknown_url"),
        ("GET", "/v1/chat/completions", "method_not_supported"),
        ("GET", "/v1/models/nope", "model_not_found"),
    ],
)
def test_paths_have_words(make_rig, method, path, word):
    assert make_rig(error_codes="openai").ask(method, path).error["code"] == word


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"messages": 5}, "invalid_type"),
        ({"stream": "perhaps"}, "invalid_type"),
        ({"temperature": 3}, "invalid_value"),
        ({"n": 0}, "invalid_value"),
        ({"tools": [{}]}, "missing_required_parameter"),
        ({"reasoning_effort": "endless"}, "invalid_value"),
    ],
)
def test_a_bad_value_has_the_word_of_its_fault(make_rig, fields, word):
    answer = make_rig(error_codes="openai").chat(**fields)
    assert (answer.status, answer.error["code"]) == (400, word), answer.body


def test_a_lost_previous_response_has_a_word(make_rig, tmp_path):
    rig = make_rig(error_codes="openai", responses_file=tmp_path / "responses.sqlite")
    answer = rig.post("/v1/responses", {"model": "tiny", "input": "hi", "previous_response_id": "resp_0"})
    assert answer.error["code"] == "previous_response_not_found"


def test_an_unknown_field_has_a_word_where_it_is_refused(make_rig):
    answer = make_rig(error_codes="openai", strict_fields=True).chat(temprature=1)
    assert answer.error["code"] == "unknown_parameter"
