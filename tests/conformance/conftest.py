"""Replays the recordings on servers, once in a run, and sums the outcomes up at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from comparing import Diff, diffs
from exchanges import read_exchanges
from replaying import Replay
from serving import export, serving, write_repository
from settings import GROUPS, SETTINGS

Found = dict[str, list[Diff]]
"""Case → where the reply to it differed."""


class Outcome(NamedTuple):
    """The properties that a test of an exchange records; `reasons` are those of its deliberate differences."""

    engine: str
    group: str
    case: str
    result: str
    reasons: list[str]


@pytest.fixture(scope="session")
def replayed(tmp_path_factory) -> Callable[[str, str], Found]:
    """The differences of all cases of a group's settings on an engine; replayed once."""
    exports: dict[tuple[str, str, str], Path] = {}
    replays: dict[tuple[str, str], Found] = {}

    def replay(engine: str, settings: str) -> Found:
        if (engine, settings) not in replays:
            folder, setting = tmp_path_factory.mktemp(f"{engine}-{settings}"), SETTINGS[settings]
            exported = (engine, setting.checkpoint, setting.task)
            if exported not in exports:
                exports[exported] = export(engine, setting, tmp_path_factory.mktemp("exported") / "model")
            models = write_repository(folder / "models", exports[exported], engine, setting)
            replays[engine, settings] = replay_all(models, settings)
        return replays[engine, settings]

    return replay


def replay_all(models: Path, settings: str) -> Found:
    found: Found = {}
    with serving(models, SETTINGS[settings]) as server:
        for group in (group for group, its_settings in GROUPS.items() if its_settings == settings):
            replay = Replay(server.url)
            try:
                found |= {each.case: diffs(each, replay.send(each)) for each in read_exchanges(group)}
            finally:
                replay.close()
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--differences", action="store_true", help="list the deliberate differences")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = recorded(terminalreporter)
    if not outcomes:
        return
    counts = Counter((outcome.engine, outcome.group, outcome.result) for outcome in outcomes)
    terminalreporter.section("conformance: recorded vLLM exchanges")
    terminalreporter.line(f"{'engine':12} {'group':9} {'passed':>7} {'deliberate':>11} {'failed':>7}")
    for engine, group in sorted({(outcome.engine, outcome.group) for outcome in outcomes}):
        passed, deliberate, failed = (
            counts[engine, group, result] for result in ("passed", "deliberate", "failed")
        )
        terminalreporter.line(f"{engine:12} {group:9} {passed:7} {deliberate:11} {failed:7}")
    if config.getoption("--differences", default=False):
        write_differences(terminalreporter, outcomes)


def recorded(terminalreporter: pytest.TerminalReporter) -> list[Outcome]:
    """The outcomes of all tests of exchanges, whichever process ran them."""
    reports = [each for group in terminalreporter.stats.values() for each in group]
    properties = [dict(each.user_properties) for each in reports if getattr(each, "when", None) == "call"]
    return [Outcome(**each) for each in properties if "group" in each]


def write_differences(terminalreporter: pytest.TerminalReporter, outcomes: list[Outcome]) -> None:
    cases: dict[str, set[str]] = {}
    for outcome in outcomes:
        for reason in outcome.reasons:
            cases.setdefault(reason, set()).add(outcome.case)
    terminalreporter.section("deliberate differences: cases, reason")
    for reason, its_cases in sorted(cases.items(), key=lambda each: (-len(each[1]), each[0])):
        terminalreporter.line(f"{len(its_cases):4} {reason}")
