"""Two checkouts are measured in pairs."""

from __future__ import annotations

from tools.lab.bench import checkouts
from tools.lab.bench.base.load import Load, Request
from tools.lab.bench.checkouts import Measured, alternate, ratios, row
from tools.lab.bench.meter import Spent

LOAD = Load(1, [Request([5], 4)])


class Recorded:
    """A server that writes down when it was asked."""

    def __init__(self, name, order):
        self.name, self.order = name, order

    def run(self, load):
        assert load is LOAD
        self.order.append(self.name)


def test_the_first_of_a_pair_changes(monkeypatch):
    order = []
    other, this = Recorded("other", order), Recorded("this", order)
    monkeypatch.setattr(checkouts, "NUM_WARM_UP", 0)
    monkeypatch.setattr(checkouts, "measure", lambda server, load: (server.run(load), server.name)[1])
    assert alternate([other, this], LOAD, 3) == [("other", "this")] * 3
    assert order == ["other", "this", "this", "other", "other", "this"]


def test_ratios_are_of_pairs():
    pairs = [(Measured(100, 10, 4), Measured(200, 10, 2)), (Measured(10, 10, 4), Measured(10, 5, 4))]
    assert ratios(pairs) == [
        "tokens/s: 1.50 × the other (1.00 – 2.00)",
        "host: 0.75 × the other (0.50 – 1.00)",
        "workers: 0.75 × the other (0.50 – 1.00)",
    ]
    assert row("this", [this for _, this in pairs]).split() == ["this", "105", "8", "3"]


def test_processor_time_is_a_difference():
    assert Spent(3.0, 2.0).since(Spent(1.0, 0.5)) == Spent(2.0, 1.5)
