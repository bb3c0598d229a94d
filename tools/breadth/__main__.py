"""`python -m tools.breadth`: exports every family of decoders, and writes what came of it.

Each model is small, with random weights.  An export is written only when its log-probabilities are those of
transformers, so an export that succeeds is equal; any other ends in a sentence.  The results of each version
of transformers are stored in a file; `--page docs/models.md` writes a table of all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from subprocess import PIPE

import click

from tools.breadth.families import FAMILIES
from tools.breadth.page import page
from tools.breadth.trial import Outcome

RESULTS = Path(__file__).parent
TRIAL = "tools.breadth.trial"


@click.command()
@click.option("--only", multiple=True, help="Rows to try; all unless said.")
@click.option("--page", "target", type=click.Path(path_type=Path), help="Write the page from all results.")
def main(only: tuple[str, ...], target: Path | None) -> None:
    """Try families with the transformers that is installed."""
    file = RESULTS / f"transformers-{version('transformers')}.json"
    known: dict[str, Outcome] = json.loads(file.read_text()) if file.exists() else {}
    for name, outcome in _tried(list(only or FAMILIES)):
        known[name] = outcome
        click.echo(f"{name}: {outcome['state']} {outcome['why']}")
        ordered = {each: known[each] for each in FAMILIES if each in known}
        file.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if target:
        target.write_text(page(RESULTS, list(FAMILIES)), encoding="utf-8")


def _tried(names: list[str]) -> Iterator[tuple[str, Outcome]]:
    """The outcome of each family.  They run in another process, and in a new one after one that ended it."""
    left = list(names)
    while left:
        child = subprocess.Popen([sys.executable, "-m", TRIAL], stdin=PIPE, stdout=PIPE, text=True)
        assert child.stdin is not None
        assert child.stdout is not None
        with child:
            child.stdin.write(json.dumps(left))
            child.stdin.close()
            for line in child.stdout:
                yield left.pop(0), json.loads(line)
        if left:
            yield left.pop(0), Outcome(state="failed", why=f"ended its process ({child.returncode})")


if __name__ == "__main__":
    main(prog_name="python -m tools.breadth")
