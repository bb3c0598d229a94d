"""Compares greedy texts of Braid and llama.cpp on one GGUF file, both in float32, until the first near tie.

    python -m tools.lab.greedy_texts FILE.gguf [--tokens 48]

Both get the same token ids over HTTP.  llama.cpp reads a copy of the file in F32, four to eight times as
large.  Exits with 1 when texts part where one token was clearly better, or when log-probabilities differ by
more than 0.001 before.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from pipelines.gguf.convert import FLOAT_SUMS, convert
from tools.client.api_server import ApiServer
from tools.lab.bench.base.environments import environment
from tools.lab.bench.base.load import Settings
from tools.lab.bench.base.systems import ROOT, Served, free_port, without_settings
from tools.lab.bench.peers.llama_server import llama_server
from tools.lab.bench.peers.table import SERVERS

NEAR, ALIKE = 0.01, 0.001
"""Log-probabilities of two tokens this far apart are a near tie; those of one token differ by less than the
second.
"""
PROMPTS = (
    "The capital of France is",
    "Water boils at a temperature of",
    "Once upon a time there was a",
    "To make pancakes, you need",
    "The three laws of motion say that",
    "def add(a, b):\n    return",
    "The sky is blue because",
    "Dear Sir or Madam,",
    "1, 2, 3, 4,",
    "Shakespeare wrote",
)
NAME = "model"
GREEDY = {"temperature": 0, "ignore_eos": True}
GRAPH = """version: 1
task: completion
nodes:
  tokens: {type: tokenize, from: request.prompts, tokenizer: model/tokenizer.json}
  generated:
    type: scheduler
    from: tokens
    cache: {memory_gb: 0.5}
    body:
      logits: {type: model, from: step, path: model/model.onnx, precision: f32, kv_cache: f32}
      next: {type: sampler, from: logits}
  text: {type: detokenize, from: generated, tokenizer: model/tokenizer.json}
"""


@dataclass(frozen=True)
class Text:
    """Token ids and their log-probabilities; `margins`: how much better each was than the next one."""

    ids: list[int]
    logprobs: list[float]
    margins: list[float]


@dataclass(frozen=True)
class Difference:
    """How many tokens are equal, the largest difference of their log-probabilities, and the margin of the
    first other token; None where there is none.
    """

    equal: int
    logprob: float
    margin: float | None

    @property
    def is_near(self) -> bool:
        return self.logprob <= ALIKE and (self.margin is None or self.margin <= NEAR)


def compare(ours: Text, theirs: Text) -> Difference:
    pairs = zip(ours.ids, theirs.ids, strict=True)
    equal = next((place for place, (one, other) in enumerate(pairs) if one != other), len(ours.ids))
    known = zip(ours.logprobs[:equal], theirs.logprobs[:equal], strict=True)
    largest = max((abs(one - other) for one, other in known), default=0.0)
    return Difference(equal, largest, ours.margins[equal] if equal < len(ours.ids) else None)


def _server(port: int) -> ApiServer:
    return ApiServer(f"http://127.0.0.1:{port}")


def ask_braid(port: int, ids: list[int], num_tokens: int) -> Text:
    fields = {"model": NAME, "logprobs": 2, "return_token_ids": True, "max_tokens": num_tokens}
    choice = _server(port).post("/completions", {"prompt": ids, **GREEDY, **fields})["choices"][0]
    best = [sorted(each.values(), reverse=True) for each in choice["logprobs"]["top_logprobs"]]
    margins = [values[0] - values[1] for values in best]
    return Text(choice["token_ids"], choice["logprobs"]["token_logprobs"], margins)


def ask_llama(port: int, ids: list[int], num_tokens: int) -> Text:
    fields = {"n_predict": num_tokens, "n_probs": 2, "cache_prompt": False}
    reply = _server(port).post_above("/completion", {"prompt": ids, **GREEDY, **fields})
    found = reply["completion_probabilities"]
    best = [[each["logprob"] for each in one["top_logprobs"]] for one in found]
    margins = [values[0] - values[1] for values in best]
    return Text([one["id"] for one in found], [one["logprob"] for one in found], margins)


@contextmanager
def braid(models: Path, log: Path) -> Iterator[int]:
    port = free_port()
    settings = {"BRAID_PORT": str(port), "BRAID_MODELS": str(models), "BRAID_WORKERS": "1"}
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    with _running(Served(command, without_settings() | settings, port, NAME, log)):
        yield port


@contextmanager
def _running(server: Served) -> Iterator[Served]:
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def run(file: Path, scratch: Path, num_tokens: int) -> list[Difference]:
    """A difference for each prompt."""
    peer = SERVERS["llama-server"]
    python = environment(ROOT / "build" / "bench" / "venvs" / peer.environment, peer.recipe, print)
    floats = ("-m", "tools.lab.bench.peers.gguf_floats", str(file.resolve()), str(scratch / "model.gguf"))
    subprocess.run([str(python), *floats], cwd=ROOT, check=True)
    folder = scratch / "models" / NAME
    convert(file, folder / "model", FLOAT_SUMS)
    (folder / "graph.yaml").write_text(GRAPH)
    tokenizer = Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))
    prompts = [tokenizer.encode(text).ids for text in PROMPTS]
    with braid(folder.parent, scratch / "braid.log") as port:
        ours = [ask_braid(port, ids, num_tokens) for ids in prompts]
    with _running(
        llama_server(python, scratch, Settings(threads=1), scratch / "llama.log", exact=True)
    ) as server:
        theirs = [ask_llama(server.port, ids, num_tokens) for ids in prompts]
    return [compare(*pair) for pair in zip(ours, theirs, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tokens", type=int, default=48)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        differences = run(asked.file, Path(scratch), asked.tokens)
    for prompt, difference in zip(PROMPTS, differences, strict=True):
        end = (
            ""
            if difference.margin is None
            else f", then a choice between two tokens {difference.margin:.2g} apart"
        )
        print(
            f"{prompt!r}: {difference.equal} tokens equal, "
            f"log-probabilities within {difference.logprob:.2g}{end}"
        )
    same = sum(difference.margin is None for difference in differences)
    print(f"{same} of {len(differences)} texts equal; others part at near ties: {_all_near(differences)}")
    sys.exit(not _all_near(differences))


def _all_near(differences: list[Difference]) -> bool:
    return all(one.is_near for one in differences)


if __name__ == "__main__":
    main()
