"""Whose weights an engine holds: the order in which calls enter, and which adapter leaves for another."""

from __future__ import annotations

import random
from pathlib import Path

from pipelines.host.adapters.adapter_cache import AdapterPlaces, DropWeights, EnterEngine, ReadWeights
from pipelines.host.adapters.adapter_discovery import FoundAdapter
from pipelines.host.adapters.registry import RegisteredAdapter


def adapter(number):
    return RegisteredAdapter(number, "m", FoundAdapter(f"a{number}", Path("nowhere"), ""), 0)


class Engine:
    """Does what is decided: reads at once, unless told otherwise."""

    def __init__(self, max_loaded):
        self.places = AdapterPlaces(max_loaded, 64)
        self.held, self.running, self.entered = set(), {}, []
        self.reading = []
        self.max_loaded = max_loaded
        self.wanted = {}

    def ask(self, key, number):
        self.wanted[key] = number
        self.places.ask(key, adapter(number))
        self.follow()

    def leave(self, key):
        self.running.pop(key, None)
        self.places.leave(key)
        self.follow()

    def read(self, number):
        self.reading.remove(number)
        self.held.add(number)
        self.places.arrived(number)
        self.follow()

    def follow(self):
        for move in list(self.places.plan()):
            match move:
                case ReadWeights(one):
                    self.reading.append(one.number)
                case DropWeights(number):
                    assert number not in self.running.values()
                    self.held.remove(number)
                case EnterEngine(key):
                    assert self.wanted[key] in self.held
                    self.running[key] = self.wanted[key]
                    self.entered.append(key)
        assert len(self.held) + len(self.reading) <= self.max_loaded


def test_the_least_recently_used_leaves():
    engine = Engine(2)
    for key, number in enumerate((1, 2)):
        engine.ask(key, number)
        engine.read(number)
        engine.leave(key)
    engine.ask(2, 1)
    engine.leave(2)
    engine.ask(3, 3)
    engine.read(3)
    assert engine.held == {1, 3}


def test_a_call_without_a_place_holds_back_later_ones_so_that_it_is_not_starved():
    engine = Engine(1)
    engine.ask("a", 1)
    engine.read(1)
    engine.ask("b", 2)
    engine.ask("c", 1)
    assert engine.entered == ["a"]
    engine.leave("a")
    engine.read(2)
    assert engine.entered == ["a", "b"]
    engine.leave("b")
    engine.read(1)
    assert engine.entered == ["a", "b", "c"]


def test_a_call_that_leaves_the_queue_lets_others_pass():
    engine = Engine(1)
    engine.ask("a", 1)
    engine.read(1)
    engine.ask("b", 2)
    engine.ask("c", 1)
    engine.leave("b")
    assert engine.entered == ["a", "c"]
    assert (engine.places.running, engine.places.waiting) == (["a1"], [])


def test_one_that_was_unloaded_leaves_after_its_last_call():
    engine = Engine(2)
    engine.ask("a", 1)
    engine.read(1)
    engine.places.left(1)
    engine.follow()
    assert engine.held == {1}
    engine.leave("a")
    assert engine.held == set()


def test_calls_of_one_that_cannot_be_read_are_refused_and_its_place_is_free():
    engine = Engine(1)
    engine.ask("a", 1)
    engine.ask("b", 1)
    engine.ask("c", 2)
    assert engine.places.failed(engine.reading.pop()) == ["a", "b"]
    engine.follow()
    assert engine.reading == [2]


def test_every_call_enters_in_any_order_of_events():
    for seed in range(60):
        rng = random.Random(seed)
        engine, keys = Engine(rng.randint(1, 4)), iter(range(1000))
        asked, cancelled = 0, set()
        while asked < 60 or engine.running or engine.reading:
            choice = rng.random()
            if choice < 0.4 and asked < 60:
                engine.ask(next(keys), rng.randint(1, 7))
                asked += 1
            elif choice < 0.5 and asked < 60 and engine.wanted:
                key = rng.choice(list(engine.wanted))
                cancelled.add(key)
                engine.leave(key)
            elif choice < 0.75 and engine.reading:
                engine.read(rng.choice(engine.reading))
            elif engine.running:
                engine.leave(rng.choice(list(engine.running)))
            if rng.random() < 0.1:
                engine.places.left(rng.randint(1, 7))
                engine.follow()
        assert {*engine.entered} | cancelled == {*engine.wanted}
        assert len(engine.entered) == len({*engine.entered})
        assert engine.places.waiting == engine.places.running == []
