"""Servers for the recordings, and what the replays said in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from comparing import Diff, diffs
from exchanges import Exchange, read_exchanges
from replaying import Replay
from serving import export, serving, write_repository
from settings import GROUPS, SETTINGS

Found = dict[str, list[Diff]]
"""Case → where its answer differed."""

OUTCOMES = pytest.StashKey[Counter[tuple[str, str, str]]]()
REASONS = pytest.StashKey[dict[str, set[str]]]()


@pytest.fixture(scope="session")
def replayed(tmp_path_factory) -> Callable[[str, str], Found]:
    """The differences of all cases of a group's settings on an engine; replayed once."""
    exports: dict[tuple[str, str, str], Path] = {}
    found: dict[tuple[str, str], Found] = {}

    def replay(engine: str, settings: str) -> Found:
        if (engine, settings) not in found:
            folder, setting = tmp_path_factory.mktemp(f"{engine}-{settings}"), SETTINGS[settings]
            exported = (engine, setting.checkpoint, setting.task)
            if exported not in exports:
                exports[exported] = export(engine, setting, tmp_path_factory.mktemp("exported") / "model")
            models = write_repository(folder / "models", exports[exported], engine, setting)
            found[engine, settings] = replay_all(models, settings)
        return found[engine, settings]

    return replay


def replay_all(models: Path, settings: str) -> Found:
    found: Found = {}
    with serving(models, SETTINGS[settings].keys) as server:
        for group in (group for group, its_settings in GROUPS.items() if its_settings == settings):
            replay = Replay(server.url)
            try:
                found |= {each.case: diffs(each, replay.send(each)) for each in read_exchanges(group)}
            finally:
                replay.close()
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--differences", action="store_true", help="list the deliberate differences")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = Counter()
    config.stash[REASONS] = {}


@pytest.fixture
def remember(request) -> Callable[[str, Exchange, str, set[str]], None]:
    """Remember how a case ended on an engine, and the reasons that were written down for what differed."""

    def keep(engine: str, exchange: Exchange, outcome: str, reasons: set[str]) -> None:
        request.config.stash[OUTCOMES][engine, exchange.group, outcome] += 1
        for reason in reasons:
            request.config.stash[REASONS].setdefault(reason, set()).add(exchange.case)

    return keep


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    counts = config.stash[OUTCOMES]
    if not counts:
        return
    terminalreporter.section("conformance: recorded vLLM exchanges")
    terminalreporter.line(f"{'engine':12} {'group':9} {'passed':>7} {'deliberate':>11} {'failed':>7}")
    for engine, group in sorted({(engine, group) for engine, group, _ in counts}):
        passed, deliberate, failed = (
            counts[engine, group, outcome] for outcome in ("passed", "deliberate", "failed")
        )
        terminalreporter.line(f"{engine:12} {group:9} {passed:7} {deliberate:11} {failed:7}")
    if config.getoption("--differences", default=False):
        terminalreporter.section("deliberate differences: cases, reason")
        for reason, cases in sorted(config.stash[REASONS].items(), key=lambda each: (-len(each[1]), each[0])):
            terminalreporter.line(f"{len(cases):4} {reason}")
