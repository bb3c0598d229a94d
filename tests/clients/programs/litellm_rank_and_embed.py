"""litellm's rerank, as it speaks to three kinds of server, and its embedding.  Arguments: the server's address."""

import os
import sys

from cases import run

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices

import litellm

URL = sys.argv[1]
QUESTION = "What is the capital of France?"
PASSAGES = [
    "Oslo has a population of about seven hundred thousand people.",
    "The capital of France is Paris.",
    "Bread is made of flour, water, salt and yeast.",
]
PROVIDERS = {
    "cohere": URL,
    "jina_ai": URL,
    "hosted_vllm": URL,
}


def ranked() -> None:
    for provider, address in PROVIDERS.items():
        reply = litellm.rerank(
            model=f"{provider}/braid-rerank",
            query=QUESTION,
            documents=PASSAGES,
            top_n=2,
            api_base=address,
            api_key="none",
        )
        assert reply.results[0]["index"] == 1, provider
        assert len(reply.results) == 2, provider
        assert reply.results[0]["document"]["text"] == PASSAGES[1], provider


def embedded() -> None:
    reply = litellm.embedding(
        model="hosted_vllm/braid-embed", input=PASSAGES, api_base=f"{URL}/v1", api_key="none"
    )
    assert [one["index"] for one in reply.data] == [0, 1, 2]
    assert reply.usage.prompt_tokens > 0


run([ranked, embedded])
