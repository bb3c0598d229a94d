"""Questions about images with five clients, and their answers beside one another.  Argument: the server's address."""

import sys
from typing import Any

import litellm
import openai
from anthropic import Anthropic
from cases import run
from images import png
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

URL = sys.argv[1]
MODEL, MAX_TOKENS = "llava", 8
client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)


FLAG, NIGHT = png((250, 10, 20), (255, 255, 255)), png((0, 0, 40))
TEXT = "What is it?"


def shown(image: str, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}, **more}


def question(*images: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": TEXT}, *images]}]


def ask(*images: dict[str, Any], **more: Any) -> tuple[str, int]:
    """The text of the answer, and how many tokens the prompt has."""
    reply = client.chat.completions.create(
        model=MODEL, messages=question(*images), temperature=0, max_tokens=MAX_TOKENS, **more
    )
    return reply.choices[0].message.content, reply.usage.prompt_tokens


def refusal(image: dict[str, Any]) -> openai.BadRequestError:
    try:
        ask(image)
    except openai.BadRequestError as error:
        return error
    raise AssertionError("this was answered")


def openai_chat() -> None:
    (flag, num_tokens), (night, as_many) = ask(shown(FLAG)), ask(shown(NIGHT))
    assert flag != night
    assert num_tokens == as_many > ask()[1]
    assert ask(shown(FLAG), shown(NIGHT))[1] > num_tokens
    fields = {"model": MODEL, "messages": question(shown(FLAG)), "temperature": 0, "max_tokens": MAX_TOKENS}
    pieces = client.chat.completions.create(**fields, stream=True)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == flag


def openai_image_by_name() -> None:
    named = ask(shown(FLAG, uuid="flag"))
    assert ask({"type": "image_url", "image_url": None, "uuid": "flag"}) == named == ask(shown(FLAG))
    assert ask(shown(NIGHT), extra_body={"mm_hashes": ["flag"]}) == ask(shown(NIGHT))
    assert ask({"type": "image_url", "uuid": "flag"}) == ask(shown(NIGHT))
    error = refusal({"type": "image_url", "image_url": None, "uuid": "another"})
    assert "Cache miss for image at index 0 but data is not provided." in error.message
    assert error.param == "messages.0.content.1"


def openai_video() -> None:
    error = refusal({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}})
    assert "for a vision model image_url" in error.message


def openai_responses() -> None:
    parts = [
        {"type": "input_text", "text": TEXT},
        {"type": "input_image", "image_url": f"data:image/png;base64,{FLAG}", "detail": "auto"},
    ]
    asked = [{"role": "user", "content": parts}]
    reply = client.responses.create(model=MODEL, input=asked, temperature=0, max_output_tokens=MAX_TOKENS)
    assert (reply.output_text, reply.usage.input_tokens) == ask(shown(FLAG))


def anthropic() -> None:
    messages = Anthropic(base_url=URL, api_key="none", max_retries=0).messages
    source = {"type": "base64", "media_type": "image/png", "data": FLAG}
    asked = [
        {"role": "user", "content": [{"type": "text", "text": TEXT}, {"type": "image", "source": source}]}
    ]
    reply = messages.create(model=MODEL, messages=asked, max_tokens=MAX_TOKENS, extra_body={"temperature": 0})
    num_tokens = reply.usage.input_tokens + reply.usage.cache_read_input_tokens
    assert (reply.content[0].text, num_tokens) == ask(shown(FLAG))
    assert messages.count_tokens(model=MODEL, messages=asked).input_tokens == num_tokens


def langchain() -> None:
    model = ChatOpenAI(
        model=MODEL, base_url=f"{URL}/v1", api_key="none", max_retries=0, temperature=0, max_tokens=MAX_TOKENS
    )
    block = {"type": "image", "base64": FLAG, "mime_type": "image/png"}
    for part in (shown(FLAG), block):
        reply = model.invoke([HumanMessage([{"type": "text", "text": TEXT}, part])])
        assert (reply.content, reply.usage_metadata["input_tokens"]) == ask(shown(FLAG))


def litellm_completion() -> None:
    reply = litellm.completion(
        model=f"openai/{MODEL}",
        api_base=f"{URL}/v1",
        api_key="none",
        messages=question(shown(FLAG)),
        temperature=0,
        max_tokens=MAX_TOKENS,
    )
    assert (reply.choices[0].message.content, reply.usage.prompt_tokens) == ask(shown(FLAG))


run(
    [
        *(openai_chat, openai_image_by_name, openai_video, openai_responses),
        *(anthropic, langchain, litellm_completion),
    ]
)
