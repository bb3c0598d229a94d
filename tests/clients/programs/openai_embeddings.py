"""OpenAI's client for embeddings, which asks for base64 unless told otherwise.  Arguments: the server's address."""

import math
import sys

import openai
import pytest
from cases import run

client = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none")
TEXTS = ["The capital of France is Paris.", "Bread is made of flour.", "x"]


def vectors(**asked) -> list[list[float]]:
    return [one.embedding for one in client.embeddings.create(model="braid-embed", **asked).data]


def near(one: list[float], other: list[float]) -> bool:
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) < 1e-4


def both_encodings() -> None:
    for one, other in zip(vectors(input=TEXTS), vectors(input=TEXTS, encoding_format="float"), strict=True):
        assert near(one, other)
        assert math.isclose(sum(a * a for a in one), 1, abs_tol=1e-4)


def together_as_alone() -> None:
    for one, text in zip(vectors(input=TEXTS), TEXTS, strict=True):
        assert near(one, vectors(input=text)[0])


def token_ids() -> None:
    said = client.post(
        "/tokenize", body={"model": "braid-embed", "prompt": TEXTS[0]}, cast_to=dict[str, object]
    )
    assert near(vectors(input=said["tokens"])[0], vectors(input=TEXTS[0])[0])


def shorter() -> None:
    (whole,), (cut,) = vectors(input=TEXTS[0]), vectors(input=TEXTS[0], dimensions=32)
    length = math.hypot(*whole[:32])
    assert near(cut, [one / length for one in whole[:32]])


def extra() -> None:
    (plain,) = vectors(input=TEXTS[0], user="me", extra_body={"use_activation": False})
    assert not math.isclose(math.hypot(*plain), 1, abs_tol=1e-3)
    usage = client.embeddings.create(
        model="braid-embed", input="word " * 900, extra_body={"truncate_prompt_tokens": 16}
    ).usage
    assert usage.prompt_tokens == 16


def refusals() -> None:
    with pytest.raises(openai.BadRequestError, match="at least one"):
        vectors(input=[])
    with pytest.raises(openai.NotFoundError, match="braid-embed"):
        client.embeddings.create(model="braid-demo", input="x")
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        vectors(input="x", dimensions=7)


run([both_encodings, together_as_alone, token_ids, shorter, extra, refusals])
