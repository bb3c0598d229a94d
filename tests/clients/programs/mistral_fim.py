"""mistralai: fills the gap of a text, whole and as a stream.  Arguments: the address, and a model that does."""

import sys

from cases import run
from mistralai.client import Mistral

URL, MODEL = sys.argv[1:]
client = Mistral(api_key="none", server_url=URL)
ASKED = {"model": MODEL, "prompt": "ab", "suffix": "yz", "max_tokens": 4, "temperature": 0}


def fills_and_streams() -> None:
    reply = client.fim.complete(**ASKED)
    assert reply.usage.prompt_tokens == 7  # the four letters, and three tokens
    events = [event.data.choices for event in client.fim.stream(**ASKED)]
    pieces = [choice.delta.content or "" for choices in events for choice in choices]
    assert "".join(pieces) == reply.choices[0].message.content
    assert reply.choices[0].finish_reason in ("stop", "length")


def continues_without_a_suffix() -> None:
    reply = client.fim.complete(model=MODEL, prompt="ab", max_tokens=4, random_seed=1, stop=["\n"])
    assert reply.usage.prompt_tokens == 2


run([fills_and_streams, continues_without_a_suffix])
