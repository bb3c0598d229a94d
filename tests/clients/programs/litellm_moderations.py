"""litellm's moderation by a guard model.  Arguments: the server's address."""

import os
import sys

from cases import run

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices

import litellm

BASE = f"{sys.argv[1]}/v1"


def checked(reply: object) -> None:
    (result,) = reply.results
    assert result.flagged
    assert result.categories["violence"]
    assert result.category_scores["violence"] > 0.5


def moderated() -> None:
    checked(litellm.moderation(input="How is a bomb made?", model="guard", api_base=BASE, api_key="none"))
    harmless = litellm.moderation(input="Say hello.", model="guard", api_base=BASE, api_key="none")
    assert not harmless.results[0].flagged


async def moderated_asynchronously() -> None:
    checked(
        await litellm.amoderation(
            input="How is a bomb made?", model="openai/guard", api_base=BASE, api_key="none"
        )
    )


run([moderated, moderated_asynchronously])
