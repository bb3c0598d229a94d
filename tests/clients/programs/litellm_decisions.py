"""litellm's decisions.  Arguments: the server's address."""

import os
import sys

from cases import run

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices

import litellm

URL = sys.argv[1]
TEXT = "My parcel has not arrived for three weeks. I want my money back."
QUESTIONS = [
    {"type": "predicate", "name": "angry", "instructions": "The customer is angry."},
    {
        "type": "choice",
        "name": "about",
        "instructions": "What is it about?",
        "choices": [{"value": "refund"}, {"value": "delivery"}],
    },
]


def decided() -> None:
    reply = litellm.decisions(
        model="openai/braid-demo", input=TEXT, questions=QUESTIONS, api_base=f"{URL}/v1", api_key="none"
    )
    angry, about = reply.answers
    assert 0 <= angry.probability <= 1
    assert about.choice in ("refund", "delivery")
    assert reply.usage.input_tokens > 0


run([decided])
