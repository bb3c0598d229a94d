"""`python -m tools.lab.bench.images`: the first token after an image that is new and after one that is
known, of Braid and of openvino_genai in turns.  Prints tables and writes `build/bench-images.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import click
from rich.console import Console

from tools.lab.bench.base.environments import environment
from tools.lab.bench.base.systems import ROOT, Piped, Served, free_port, without_settings
from tools.lab.bench.images.load import Questions, ask_all, asked, body_of, question, shown
from tools.lab.bench.images.model import SIZES, add_tokenizer_ir, make_model
from tools.lab.bench.peers.table import PEERS
from tools.lab.bench.report import table

BUILD = Path("build")
MODEL, PEER = "llava", "openvino-genai"
FIRST = {
    "workload": ("image", "{}"),
    "first_s": ("s to the\nfirst token", "{:.3f}"),
    "ratio": ("/ new", "{:.2f}"),
}
BESIDE = {
    "workload": ("requests", "{}"),
    "braid_s": ("Braid, s", "{:.2f}"),
    "peer_s": (f"{PEER}, s", "{:.2f}"),
    "ratio": ("its time\n/ Braid's", "{:.2f}"),
}
NUM_TOKENS = 32
Row = dict[str, Any]


@click.command()
@click.option("--size", default="clip-l", type=click.Choice(list(SIZES)), help="Shape of the random model.")
@click.option("--rounds", default=5, show_default=True, help="How often each load is repeated.")
@click.option("--alone", is_flag=True, help=f"Leave {PEER} out.")
def main(size: str, rounds: int, alone: bool) -> None:
    """QUICK=1 in the environment measures two rounds."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the systems are stopped too
    rounds = 2 if os.environ.get("QUICK") == "1" else rounds
    folder = BUILD / "bench" / "images" / size
    make_model(folder / "models" / MODEL, SIZES[size])
    console, seeds = Console(width=max(120, Console().width)), count(os.getpid() * 10_000)
    braid = _braid(folder)
    try:
        braid.wait_until_ready()
        first = _first_tokens(braid.port, seeds, rounds)
        title = f"LLaVA, {size}, {SIZES[size].num_tokens} tokens an image"
        console.print(table(first, FIRST, f"{title}: first token"))
        beside = [] if alone else _beside(braid.port, folder, seeds, rounds)
        if beside:
            console.print(table(beside, BESIDE, f"{title}: new images, {NUM_TOKENS} tokens each"))
    finally:
        braid.stop()
    (BUILD / "bench-images.json").write_text(json.dumps({"first": first, "beside": beside}, indent=2) + "\n")


def _braid(folder: Path) -> Served:
    port = free_port()
    settings = {
        "BRAID_PORT": str(port),
        "BRAID_MODELS": str((folder / "models").resolve()),
        "BRAID_WORKERS": "1",
    }
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    return Served(command, without_settings() | settings, port, MODEL, folder / "braid.log")


def _first_tokens(port: int, seeds: count[int], rounds: int) -> list[Row]:
    """A new image; it in the same prompt; in another one; and in another by its name alone."""
    times: dict[str, list[float]] = {}
    for turn in range(rounds + 1):
        seed = next(seeds)
        part, named = shown(seed, f"image {seed}"), {"type": "image_url", "uuid": f"image {seed}"}
        asked_of = {
            "new": (question(seed), part),
            "known, same prompt": (question(seed), part),
            "known, another prompt": (f"again {question(seed)}", part),
            "by name, another prompt": (f"by name {question(seed)}", named),
        }
        for name, (text, image) in asked_of.items():
            first_s, _ = asked(port, body_of(text, image, 1))
            if turn:  # the first warms up
                times.setdefault(name, []).append(first_s)
    new_s = median(times["new"])
    return [
        {"workload": name, "first_s": median(seconds), "ratio": median(seconds) / new_s}
        for name, seconds in times.items()
    ]


def _beside(port: int, folder: Path, seeds: count[int], rounds: int) -> list[Row]:
    peer = PEERS[PEER]
    python = environment(BUILD / "bench" / "venvs" / peer.environment, peer.recipe, click.echo)
    model = (folder / "models" / MODEL).resolve()
    add_tokenizer_ir(model, python)
    module = "tools.lab.bench.images.openvino_genai_child"
    child = Piped([str(python), "-m", module, str(model)], folder / f"{PEER}.log")
    try:
        child.wait_until_ready()
        return [_row(port, child, seeds, rounds, together) for together in (1, 8)]
    finally:
        child.stop()


def _row(port: int, child: Piped, seeds: count[int], rounds: int, together: int) -> Row:
    ours, theirs = [], []
    for turn in range(rounds + 1):
        questions = Questions([next(seeds) for _ in range(together)], NUM_TOKENS)
        pair = ask_all(port, questions), child.ask(json.dumps(asdict(questions)))["seconds"]
        if turn:
            ours.append(pair[0])
            theirs.append(pair[1])
    ratio = median(other / own for own, other in zip(ours, theirs, strict=True))
    return {"workload": str(together), "braid_s": median(ours), "peer_s": median(theirs), "ratio": ratio}


if __name__ == "__main__":
    main()
