"""dspy: its modules, adapters, tools and streams.  Argument: the server's address.

The model is too small for dspy's prompts, so the form of its replies is held by grammars; what is checked is
that each request is served and its reply is parsed.
"""

import os
import sys
import tempfile

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the internet for prices
os.environ["DSPY_CACHEDIR"] = tempfile.mkdtemp()

import dspy
from cases import run

URL = sys.argv[1]
FIELDS = r"\[\[ ## answer ## \]\]\n[A-Za-z ]{3,20}\n\n\[\[ ## completed ## \]\]"


def model(**options: object) -> dspy.LM:
    common = {"api_base": f"{URL}/v1", "api_key": "none", "cache": False, "num_retries": 0}
    return dspy.LM("openai/braid-demo", **({"temperature": 0, "max_tokens": 80} | common | options))


def called_directly() -> None:
    (text,) = model()(messages=[{"role": "user", "content": "What is the capital of France?"}])
    assert "Paris" in text


def several_choices() -> None:
    assert len(model(n=3, temperature=1.0)("Tell me a story")) == 3


def predicted() -> None:
    """The chat adapter, whose marks a regular expression holds."""
    held = model(extra_body={"structured_outputs": {"regex": FIELDS}})
    with dspy.context(lm=held, adapter=dspy.ChatAdapter()):
        result = dspy.Predict("question -> answer")(question="What is the capital of France?")
    assert result.answer
    assert held.history[-1]["usage"]["completion_tokens"] > 0


def embedded() -> None:
    embedder = dspy.Embedder("openai/braid-embed", api_base=f"{URL}/v1", api_key="none", caching=False)
    assert embedder(["one", "two"]).shape == (2, 128)


run([called_directly, several_choices, predicted, embedded])
