"""langchain's decisions.  Arguments: the server's address."""

import sys

from cases import run
from langchain_openai.decisions import Choice, OpenAIDecisions, Predicate, Score

DECISIONS = OpenAIDecisions(model="braid-demo", base_url=f"{sys.argv[1]}/v1", api_key="none")
ASKED = {
    "input": "My parcel has not arrived for three weeks. I want my money back.",
    "questions": {
        "about": Choice(
            instructions="What is it about?", choices={"refund": "money back", "delivery": "a parcel"}
        ),
        "angry": Predicate(instructions="Is the customer angry?"),
        "urgent": Score(instructions="How urgent is it?", levels=["can wait", "soon", "now"]),
    },
}


def check(reply: object) -> None:
    assert reply.choices["about"].choice in ("refund", "delivery")
    assert 0 <= reply.predicates["angry"].probability <= 1
    assert 0 <= reply.scores["urgent"].score <= 2


def decided() -> None:
    check(DECISIONS.invoke(ASKED))


async def decided_asynchronously() -> None:
    check(await DECISIONS.ainvoke(ASKED))


run([decided, decided_asynchronously])
