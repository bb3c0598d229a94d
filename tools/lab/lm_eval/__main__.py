"""`python -m tools.lab.lm_eval FILE.gguf`: the same items over transformers and over Braid, and a table.

Ends with 1 where a log-likelihood of the same weights in f32 differs from that of transformers by more than
1e-3, or an accuracy differs at all.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tools.lab.lm_eval import hf_folder, items
from tools.lab.lm_eval.comparing import WITHIN, faults, table
from tools.lab.lm_eval.evaluating import LmEval, Outcome
from tools.lab.lm_eval.served import GGUF, NAME, SERVED, Served, prepare
from tools.lab.soak.server import started_server

BUILD = Path("build/lm-eval")
MODELS = BUILD / "models"
WEIGHTS = BUILD / "weights"


def stage(text: str) -> None:
    print(f"── {text}", flush=True)


def write_weights(file: Path, threads: int) -> None:
    """The folder that transformers reads, once."""
    if not (WEIGHTS / hf_folder.TOKENIZER[-1]).exists():
        stage("writing the weights in float32")
        converted = prepare(SERVED["gguf"], file, MODELS, threads) / NAME / "model"
        hf_folder.write(file, converted, WEIGHTS)


def serve_and_ask(lm_eval: LmEval, key: str, served: Served, file: Path) -> Outcome:
    stage(served.title)
    models = prepare(served, file if served.weights == GGUF else WEIGHTS, MODELS, lm_eval.threads)
    with started_server(models, workers=1, log=BUILD / f"{key}.log") as (url, _):
        return lm_eval.of_server(url, NAME, WEIGHTS, key)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lab.lm_eval", description=__doc__)
    parser.add_argument("file", type=Path, help="a GGUF file of the llama architecture")
    parser.add_argument("--limit", type=int, help="about this many items of each task; default: all")
    parser.add_argument("--served", nargs="*", choices=SERVED, default=list(SERVED), help="default: all ways")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    items.write(BUILD / "items", asked.limit)
    write_weights(asked.file, asked.threads)
    lm_eval = LmEval(BUILD, asked.threads, stage)
    stage("transformers, f32")
    reference = lm_eval.of_transformers(WEIGHTS)
    outcomes = {key: serve_and_ask(lm_eval, key, SERVED[key], asked.file) for key in asked.served}
    print("\n".join(table(reference, {SERVED[key].title: outcome for key, outcome in outcomes.items()})))
    wrong = [
        f"{key}: {fault}"
        for key, outcome in outcomes.items()
        if SERVED[key].exact
        for fault in faults(reference, outcome)
    ]
    print(
        "\n".join(wrong)
        or f"with f32 arithmetic, log-likelihoods are those of transformers within {WITHIN:g}"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
