"""`python -m tools.lab.bench.speech`: compares Whisper tiny.en on Braid and on its peers, which alternate.

Prints tables and writes `build/bench-speech.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from rich.console import Console

from tools.lab.bench.base.contenders import ContenderFailed
from tools.lab.bench.base.environments import NotInstalled
from tools.lab.bench.report import table
from tools.lab.bench.speech.clips import make_clips, recordings, seconds_of
from tools.lab.bench.speech.contenders import CONTENDERS, MODEL, SpeechContender, Stage
from tools.lab.bench.speech.forms import WEIGHTS, SpeechForms
from tools.lab.bench.speech.measuring import MOST_CLIPS, WORKLOADS, Row, SpeechWorkload, measure

BUILD = Path("build")
FOLDER = BUILD / "bench" / "speech"
COLUMNS = {
    "workload": ("workload", "{}"),
    "contender": ("", "{}"),
    "real_time_factor": ("real-time\nfactor", "{:.4f}"),
    "clips_per_s": ("clips/s", "{:.2f}"),
    "ratio": ("its time\n/ Braid's", "{:.2f}"),
    "other_words": ("% words unlike\nBraid's", "{:.1f}"),
}


@click.command()
@click.option("--contender", "names", multiple=True, type=click.Choice(list(CONTENDERS)), default=CONTENDERS)
@click.option("--workload", "chosen", multiple=True, type=click.Choice(list(WORKLOADS)), default=WORKLOADS)
@click.option("--rounds", default=3, show_default=True, help="How often each load is repeated.")
@click.option("--weights", "types", multiple=True, type=click.Choice(WEIGHTS), default=WEIGHTS)
def main(names: tuple[str, ...], chosen: tuple[str, ...], rounds: int, types: tuple[str, ...]) -> None:
    """Seconds of computing for a second of sound.  QUICK=1 in the environment measures one round."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the contenders are stopped too
    rounds = 1 if os.environ.get("QUICK") == "1" else rounds
    console = Console(width=max(120, Console().width))

    def note(text: str) -> None:
        console.print(f"[dim]{text}", highlight=False)

    paths = make_clips(recordings(FOLDER / "recordings"), FOLDER / "clips", MOST_CLIPS)
    clips = [(str(path.resolve()), seconds_of(path)) for path in paths]
    workloads = {title: WORKLOADS[title] for title in chosen}
    rows = []
    for weights in types:
        measured = _measured(SpeechForms(FOLDER, weights, MODEL), names, workloads, clips, rounds, note)
        rows += [row | {"weights": weights} for row in measured]
        console.print(table(measured, COLUMNS, f"Whisper tiny.en, {weights} weights"))
    (BUILD / "bench-speech.json").write_text(json.dumps(rows, indent=2) + "\n")


def _measured(
    forms: SpeechForms,
    names: tuple[str, ...],
    workloads: dict[str, SpeechWorkload],
    clips: list[tuple[str, float]],
    rounds: int,
    note: Stage,
) -> list[Row]:
    contenders: dict[str, SpeechContender] = {}
    try:
        _start(contenders, forms, names, note)
        return measure(contenders, workloads, clips, rounds, note)
    finally:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda contender: contender.stop(), contenders.values()))


def _start(
    contenders: dict[str, SpeechContender], forms: SpeechForms, names: tuple[str, ...], note: Stage
) -> None:
    """Add the contenders that start; the others are reported."""
    logs = FOLDER / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for name in names:
        try:
            log = logs / f"{name}-{forms.weights}"
            contenders[name] = CONTENDERS[name](forms, BUILD / "bench" / "venvs", log, note)
            contenders[name].wait_until_ready()
        except (ContenderFailed, NotInstalled) as error:
            note(f"left out: {name}: {error}")
            contenders.pop(name, None)


if __name__ == "__main__":
    main()
