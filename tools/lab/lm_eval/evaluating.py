"""Runs lm-eval in an environment of its own, and reads the answers that it logged."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.lab.bench.base.environments import Recipe, environment

RECIPE = Recipe(
    packages=(
        "lm-eval[api]==0.4.13",
        "torch==2.13.0",
        "transformers==4.57.6",
        "accelerate==1.12.0",
    )
)
TASKS = {"braid_choices": "choices", "braid_cloze": "cloze"}
"""lm-eval's name of a task → its part in the report."""
FOLDER = Path(__file__).parent / "tasks"
MAX_LENGTH = 256


@dataclass(frozen=True)
class Outcome:
    """`scores`: of each task, its metrics.  `logprobs`: of each task and item, those of its continuations."""

    scores: dict[str, dict[str, float]]
    logprobs: dict[str, dict[int, list[float]]]


class LmEval:
    """lm-eval on `threads` threads; everything that it writes is in `folder`."""

    def __init__(self, folder: Path, threads: int, stage: Callable[[str], None]) -> None:
        self.folder = folder
        self.threads = threads
        self.python = environment(folder / "environment", RECIPE, stage)

    def of_transformers(self, model: Path) -> Outcome:
        return self._run("hf", f"pretrained={model},dtype=float32,max_length={MAX_LENGTH}", "f32", 16)

    def of_server(self, url: str, model: str, tokenizer: Path, name: str) -> Outcome:
        """`tokenizer` is a Hugging Face folder: lm-eval sends token ids."""
        place = f"model={model},base_url={url}/v1/completions,tokenizer={tokenizer}"
        return self._run("local-completions", f"{place},max_length={MAX_LENGTH},num_concurrent=4", name, 4)

    def _run(self, kind: str, arguments: str, name: str, batch: int) -> Outcome:
        out = self.folder / "answers" / f"{kind}-{name}"
        command = [str(self.python), "-m", "lm_eval", "--model", kind, "--model_args", arguments]
        command += ["--tasks", ",".join(TASKS), "--include_path", str(FOLDER), "--batch_size", str(batch)]
        command += ["--device", "cpu", "--log_samples", "--output_path", str(out)]
        settings = {
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self.folder / "hf"),
            "TOKENIZERS_PARALLELISM": "false",
            "OMP_NUM_THREADS": str(self.threads),
        }
        subprocess.run(command, check=True, env=os.environ | settings)
        return read(out)


def read(folder: Path) -> Outcome:
    """The newest answers in a folder that lm-eval wrote."""
    results = max(folder.rglob("results_*.json"))
    stamp = results.stem.removeprefix("results_")
    found = json.loads(results.read_text())["results"]
    scores = {part: _metrics(found[task]) for task, part in TASKS.items()}
    files = {part: results.with_name(f"samples_{task}_{stamp}.jsonl") for task, part in TASKS.items()}
    return Outcome(scores, {part: _logprobs(path) for part, path in files.items()})


def _metrics(found: dict[str, object]) -> dict[str, float]:
    numbers = {name.partition(",")[0]: value for name, value in found.items() if "stderr" not in name}
    return {name: float(value) for name, value in numbers.items() if isinstance(value, int | float)}


def _logprobs(path: Path) -> dict[int, list[float]]:
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    return {each["doc_id"]: [float(answer[0][0]) for answer in each["resps"]] for each in samples}
