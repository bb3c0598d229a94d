"""`python -m tools.lab.breadth`: exports every family of decoders, and writes what came of it.

Each model is small, with random weights.  An export is written only when its log-probabilities are those of
transformers, so an export that succeeds is equal; any other ends in a sentence.  The results of each version
of transformers are stored in a file; `--page docs/models.md` writes a table of all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from subprocess import PIPE

import click

from tools.lab.breadth.families import FAMILIES
from tools.lab.breadth.page import OPTIMUM, WITH, Results, page
from tools.lab.breadth.trial import FORMATS, OPENVINO, Outcome

RESULTS = Path(__file__).parent
TRIAL = "tools.lab.breadth.trial"
OPTIMUM_READS = 4
"""The newest transformers that the optimum-intel of constraints.txt runs with."""
FAMILY_OF = {name: family for name, (family, _) in FAMILIES.items()}
PAGING_OPTIMUM = 2
"""The first version of optimum-intel whose hybrids OpenVINO can page.  Its results have a file of their own,
since each family needs another transformers.
"""


@click.command()
@click.option("--only", multiple=True, help="Rows or families to try; all unless said, none with ''.")
@click.option("--refused", is_flag=True, help="Of these, the rows that were not equal when last tried.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Only this format of exports.")
@click.option("--page", "target", type=click.Path(path_type=Path), help="Write the page from all results.")
def main(only: tuple[str, ...], refused: bool, form: str | None, target: Path | None) -> None:
    """Try families with the transformers that is installed; what was tried before stays in the results."""
    installed = version("transformers")
    newer = form == OPENVINO and _optimum_pages()
    file = RESULTS / (f"{OPTIMUM}-{version(OPTIMUM)}.json" if newer else f"transformers-{installed}.json")
    known: Results = json.loads(file.read_text()) if file.exists() else {}
    forms = [form] if form else list(FORMATS[: 1 if int(installed.partition(".")[0]) > OPTIMUM_READS else 2])
    rows = [(name, form) for name in _rows(only) for form in forms]
    if refused:
        rows = [(name, form) for name, form in rows if not _is_equal(known, name, form)]
    for (name, tried), outcome in _tried(rows):
        outcome["tried"] = date.today().isoformat()
        if newer and outcome["state"] == "equal":
            outcome["why"] = f"{WITH}{installed}"
        known.setdefault(name, {})[tried] = outcome
        click.echo(f"{name}, {tried}: {outcome['state']} {outcome['why']}")
        ordered = {name: known[name] for name in FAMILIES if name in known}
        file.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if target:
        target.write_text(page(RESULTS, list(FAMILIES)), encoding="utf-8")


def _rows(only: tuple[str, ...]) -> list[str]:
    """The rows of these names and families, in the order of the page."""
    if unknown := [name for name in only if name and name not in {*FAMILIES, *FAMILY_OF.values()}]:
        raise click.UsageError(f"no row or family is called {unknown[0]}; families.py has them all")
    return [name for name in FAMILIES if not only or name in only or FAMILY_OF[name] in only]


def _is_equal(known: Results, name: str, form: str) -> bool:
    return known.get(name, {}).get(form, {}).get("state") == "equal"


def _optimum_pages() -> bool:
    try:
        return int(version(OPTIMUM).partition(".")[0]) >= PAGING_OPTIMUM
    except PackageNotFoundError:
        return False


def _tried(rows: list[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], Outcome]]:
    """The outcome of each row and format.  They run in another process, and in a new one after one that
    ended it.
    """
    left = list(rows)
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
    main(prog_name="python -m tools.lab.breadth")
