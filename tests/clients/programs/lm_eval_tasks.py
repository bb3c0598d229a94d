"""lm-eval: local-completions with the server's own tokenizer, and local-chat-completions.  Argument: the address.

Log-likelihoods are compared with those of a completion of the same text, asked for directly.
"""

import logging
import sys

import lm_eval
import requests
from cases import run
from datasets import Dataset, DatasetDict
from lm_eval.tasks import TaskManager

URL = sys.argv[1]
MODEL = "braid-demo"
logging.disable(logging.WARNING)
OWN_TASKS = TaskManager(include_defaults=False)  # the thousands that it ships take seconds to list
ADDRESS = {"model": MODEL, "base_url": f"{URL}/v1/completions", "max_retries": 1, "max_length": 1024}
CAPITALS = {"France": "Paris", "Italy": "Rome", "Norway": "Oslo", "Japan": "Tokyo", "Peru": "Lima"}
DOCUMENTS = [
    {"question": f"What is the capital of {country}?", "answers": list(CAPITALS.values()), "right": number}
    for number, country in enumerate(CAPITALS)
]


def task(kind: str, **fields: object) -> dict[str, object]:
    return {
        "task": f"capitals_{kind}",
        "custom_dataset": lambda **_: DatasetDict({"test": Dataset.from_list(DOCUMENTS)}),
        "test_split": "test",
        "output_type": kind,
        "doc_to_text": "Question: {{question}}\nAnswer:",
        **fields,
    }


CHOICE = task(
    "multiple_choice",
    doc_to_choice="{{answers}}",
    doc_to_target="right",
    metric_list=[{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
)
WRITTEN = task(
    "generate_until",
    doc_to_text="{{question}}",
    doc_to_target="{{answers[right]}}",
    generation_kwargs={"until": ["\n"], "max_gen_toks": 24, "temperature": 0, "do_sample": False},
    filter_list=[
        {
            "name": "word",
            "filter": [{"function": "regex", "regex_pattern": r"is (\w+)"}, {"function": "take_first"}],
        }
    ],
    metric_list=[{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
)
ROLLING = task(
    "loglikelihood_rolling",
    doc_to_text="",
    doc_to_target="The capital of a country is {{answers[right]}}.",
    metric_list=[{"metric": "bits_per_byte"}],
)


def evaluate(model: str, tasks: list[object], **options: object) -> dict[str, object]:
    return lm_eval.simple_evaluate(
        model=model, tasks=tasks, bootstrap_iters=0, log_samples=True, task_manager=OWN_TASKS, **options
    )


def log_likelihoods(found: dict[str, object]) -> list[float]:
    samples = sorted(found["samples"]["capitals_multiple_choice"], key=lambda each: each["doc_id"])
    return [float(answer[0][0]) for sample in samples for answer in sample["resps"]]


def choices() -> None:
    """The same at any number of requests at once, and equal to what the server says of the whole text."""
    alone, eight = (
        log_likelihoods(
            evaluate("local-completions", [CHOICE], model_args=ADDRESS | {"num_concurrent": number})
        )
        for number in (1, 8)
    )
    assert max(abs(a - b) for a, b in zip(alone, eight, strict=True)) < 1e-3
    assert len(alone) == len(CAPITALS) ** 2
    assert (
        abs(alone[0] - asked_directly("Question: What is the capital of France?\nAnswer:", " Paris")) < 1e-3
    )


def asked_directly(text: str, answer: str) -> float:
    """The log-probability of the answer's tokens after the text's."""
    count = len(requests.post(f"{URL}/tokenize", json={"model": MODEL, "prompt": text}).json()["tokens"])
    body = {"model": MODEL, "prompt": text + answer, "echo": True, "logprobs": 1, "max_tokens": 0}
    (choice,) = requests.post(f"{URL}/v1/completions", json=body).json()["choices"]
    return sum(choice["logprobs"]["token_logprobs"][count:])


def rolling() -> None:
    found = evaluate("local-completions", [ROLLING], model_args=ADDRESS)
    assert found["results"]["capitals_loglikelihood_rolling"]["bits_per_byte,none"] > 0


def written() -> None:
    """Chats: the model knows its capitals."""
    chat = ADDRESS | {"base_url": f"{URL}/v1/chat/completions", "num_concurrent": 4}
    found = evaluate("local-chat-completions", [WRITTEN], model_args=chat, apply_chat_template=True)
    assert found["results"]["capitals_generate_until"]["exact_match,word"] == 1.0


run([choices, rolling, written])
