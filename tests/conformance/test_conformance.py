"""Braid replies to recorded requests as vLLM did, with the same checkpoints, but for a table of differences."""

from __future__ import annotations

import importlib.util
from fnmatch import fnmatchcase

import pytest
from breadth import after
from differences import DIFFERENCES, reason_for
from exchanges import read_exchanges
from serving import ENGINES
from settings import GROUPS

HAS_EXPORT = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "optimum"))
pytestmark = pytest.mark.skipif(not HAS_EXPORT, reason="needs the export extra")

FEW_ENGINES = after(1, ENGINES)
"""The backend computes the same values, so `make test` replays on one; `make conformance` replays on all."""
FEW_GROUPS = tuple(
    group for group in GROUPS if group not in ("cls", "score", "bertemb", "bertscore", "embed", "nomat")
)
"""In `make test`; the others each take an export and a server of their own."""
EXCHANGES = [exchange for group in FEW_GROUPS for exchange in read_exchanges(group)]
MORE = [exchange for group in GROUPS if group not in FEW_GROUPS for exchange in read_exchanges(group)]


@pytest.mark.parametrize("engine", FEW_ENGINES)
@pytest.mark.parametrize(
    "exchange", after(len(EXCHANGES), EXCHANGES + MORE), ids=lambda exchange: exchange.case
)
def test_an_exchange_has_the_same_reply(engine, exchange, replayed, record_property):
    differences = replayed(engine, GROUPS[exchange.group])[exchange.case]
    explained = [(diff, reason_for(exchange.case, diff)) for diff in differences]
    unexpected = [str(diff) for diff, reason in explained if reason is None]
    differs = any(diff.what != "extra" for diff in differences)  # fields beyond vLLM's harm no client
    record_property("engine", engine)
    record_property("group", exchange.group)
    record_property("case", exchange.case)
    record_property("result", "failed" if unexpected else "deliberate" if differs else "passed")
    record_property("reasons", sorted({reason for _, reason in explained if reason is not None}))
    if unexpected:
        request = f"{exchange.method} {exchange.path} {exchange.raw_body or exchange.body or ''}"
        pytest.fail("\n".join([exchange.case, request[:600], *unexpected]), pytrace=False)


@pytest.mark.breadth
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.reason)
def test_a_deliberate_difference_is_one(engine, difference, replayed):
    found = {case: each for settings in GROUPS.values() for case, each in replayed(engine, settings).items()}
    differing = [
        (case, diff) for case, each in found.items() for diff in each if difference.covers(case, diff)
    ]
    stale = [one for one in difference.cases if not any(fnmatchcase(case, one) for case, _ in differing)]
    stale += [
        one for one in difference.paths if not any(fnmatchcase(diff.path, one) for _, diff in differing)
    ]
    assert stale == []
