"""google-genai: texts, streams, counts, functions that it calls itself, schemas, errors.  Argument: the address."""

import json
import sys
import warnings

from cases import run
from google import genai
from google.genai import types

warnings.simplefilter("ignore")  # it advises to call functions in chats alone
CLIENT = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=sys.argv[1]))
LISTS = genai.Client(
    api_key="none", http_options=types.HttpOptions(base_url=sys.argv[1], api_version="v1beta")
)
MODEL = "braid-demo"
PROMPT = "What is the capital of France?"
ASKED_FOR = []


def config(**more):
    return types.GenerateContentConfig(temperature=0, max_output_tokens=80, **more)


def generate(prompt, **more):
    return CLIENT.models.generate_content(model=MODEL, contents=prompt, config=config(**more))


def get_weather(city: str) -> dict:
    """Current weather of a city.

    Args:
        city: the city
    """
    ASKED_FOR.append(city)
    return {"temperature": 7, "condition": "rain"}


def text_and_count():
    reply = generate(PROMPT)
    assert "Paris" in reply.text
    assert reply.candidates[0].finish_reason == types.FinishReason.STOP
    counted = CLIENT.models.count_tokens(model=MODEL, contents=PROMPT).total_tokens
    assert counted == reply.usage_metadata.prompt_token_count


def stream():
    chunks = CLIENT.models.generate_content_stream(model=MODEL, contents=PROMPT, config=config())
    pieces = [chunk.text for chunk in chunks if chunk.text]
    assert len(pieces) > 1
    assert "Paris" in "".join(pieces)


def functions_that_it_calls():
    reply = generate("What is the weather in Oslo?", tools=[get_weather])
    assert "7" in reply.text
    assert ASKED_FOR == ["Oslo"]


def chat():
    chat = CLIENT.chats.create(model=MODEL, config=config())
    assert "Paris" in chat.send_message(PROMPT).text
    assert chat.send_message("Thanks").text
    assert len(chat.get_history()) == 4


def schema():
    properties = {"name": {"type": "STRING", "maxLength": 12}, "age": {"type": "INTEGER", "maximum": 99}}
    wanted = {"type": "OBJECT", "properties": properties, "required": ["name", "age"]}
    reply = generate("Ada is 36 years old.", response_mime_type="application/json", response_schema=wanted)
    assert isinstance(json.loads(reply.text)["age"], int)


def models():
    assert f"models/{MODEL}" in [model.name for model in LISTS.models.list()]
    assert LISTS.models.get(model=MODEL).display_name == MODEL


def an_unknown_model():
    errors = []
    try:
        CLIENT.models.generate_content(model="gone", contents="x")
    except genai.errors.ClientError as error:
        errors.append((error.code, error.status))
    assert errors == [(404, "NOT_FOUND")]


run([text_and_count, stream, functions_that_it_calls, chat, schema, models, an_unknown_model])
