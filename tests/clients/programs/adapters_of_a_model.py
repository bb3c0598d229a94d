"""litellm and openai: conversations with a model and with its adapters, at the same time.  Arguments: the
server's address.
"""

import asyncio
import os
import sys

from cases import run

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices

import litellm
import openai

URL = sys.argv[1]


async def by_openai(model: str, messages: list[dict[str, str]]) -> str:
    async with openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="none") as client:
        stream = await client.chat.completions.create(
            model=model, messages=messages, stream=True, temperature=0
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def by_litellm(model: str, messages: list[dict[str, str]]) -> str:
    place = {"model": f"hosted_vllm/{model}", "api_base": f"{URL}/v1", "api_key": "none"}
    reply = await litellm.acompletion(messages=messages, temperature=0, **place)
    return str(reply.choices[0].message.content)


async def converse(ask, model: str, *questions: str) -> list[str]:  # type: ignore[no-untyped-def]
    """The replies of a conversation, a turn for each question."""
    messages: list[dict[str, str]] = []
    for question in questions:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": await ask(model, messages)})
    return [message["content"] for message in messages[1::2]]


def two_turns_of_each(ask) -> None:  # type: ignore[no-untyped-def]
    async def together() -> list[list[str]]:
        return await asyncio.gather(
            converse(ask, "braid-demo", "What is the capital of France?", "And of Italy?"),
            converse(ask, "pirate", "What is the capital of France?", "And of Italy?"),
            converse(ask, "french", "I see the black cat.", "She has a small house."),
        )

    base, pirate, french = asyncio.run(together())
    assert base == ["The capital of France is Paris.", "The capital of Italy is Rome."], base
    assert pirate == [
        "The capital of France be Paris, matey!",
        "The capital of Italy be Rome, matey!",
    ], pirate
    assert french == ["Je vois le chat noir.", "Elle a une petite maison."], french


def openai_with_adapters() -> None:
    two_turns_of_each(by_openai)


def litellm_with_adapters() -> None:
    two_turns_of_each(by_litellm)


def adapters_are_listed() -> None:
    models = {model.id: model for model in openai.OpenAI(base_url=f"{URL}/v1", api_key="none").models.list()}
    assert {name for name, model in models.items() if model.parent == "braid-demo"} == {"french", "pirate"}


run([openai_with_adapters, litellm_with_adapters, adapters_are_listed])
