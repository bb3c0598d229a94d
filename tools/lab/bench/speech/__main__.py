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

from tools.lab.bench.base.environments import NotInstalled
from tools.lab.bench.base.systems import SystemFailed
from tools.lab.bench.report import table
from tools.lab.bench.speech.clips import make_clips, recordings, seconds_of
from tools.lab.bench.speech.forms import WEIGHTS, SpeechForms
from tools.lab.bench.speech.measuring import MOST_CLIPS, WORKLOADS, Row, SpeechWorkload, measure
from tools.lab.bench.speech.systems import MODEL, SYSTEMS, SpeechSystem, Stage

BUILD = Path("build")
FOLDER = BUILD / "bench" / "speech"
COLUMNS = {
    "workload": ("workload", "{}"),
    "system": ("", "{}"),
    "real_time_factor": ("real-time\nfactor", "{:.4f}"),
    "clips_per_s": ("clips/s", "{:.2f}"),
    "ratio": ("its time\n/ Braid's", "{:.2f}"),
    "other_words": ("% words unlike\nBraid's", "{:.1f}"),
}


@click.command()
@click.option(
    "--system", "--contender", "names", multiple=True, type=click.Choice(list(SYSTEMS)), default=SYSTEMS
)
@click.option("--workload", "chosen", multiple=True, type=click.Choice(list(WORKLOADS)), default=WORKLOADS)
@click.option("--rounds", default=3, show_default=True, help="How often each load is repeated.")
@click.option("--weights", "types", multiple=True, type=click.Choice(WEIGHTS), default=WEIGHTS)
def main(names: tuple[str, ...], chosen: tuple[str, ...], rounds: int, types: tuple[str, ...]) -> None:
    """Seconds of computing for a second of sound.  QUICK=1 in the environment measures one round."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the systems are stopped too
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
    systems: dict[str, SpeechSystem] = {}
    try:
        _start(systems, forms, names, note)
        return measure(systems, workloads, clips, rounds, note)
    finally:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda system: system.stop(), systems.values()))


def _start(systems: dict[str, SpeechSystem], forms: SpeechForms, names: tuple[str, ...], note: Stage) -> None:
    """Add the systems that start; the others are reported."""
    logs = FOLDER / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for name in names:
        try:
            log = logs / f"{name}-{forms.weights}"
            systems[name] = SYSTEMS[name](forms, BUILD / "bench" / "venvs", log, note)
            systems[name].wait_until_ready()
        except (SystemFailed, NotInstalled) as error:
            note(f"left out: {name}: {error}")
            systems.pop(name, None)


if __name__ == "__main__":
    main()
