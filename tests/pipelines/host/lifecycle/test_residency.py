"""The residency policy alone, with a clock in hand: each rule once, then random steps that must break none."""

from __future__ import annotations

import random

import pytest

from pipelines.base.errors import ModelNotFound, Unavailable
from pipelines.host.lifecycle.residency import Residency
from pipelines.host.lifecycle.residency_decisions import (
    AnswerClient,
    FailModel,
    LoadModel,
    RestoreModel,
    RetireModel,
)
from pipelines.host.models.residents import MemoryLimits, Terms

GB = 1 << 30


class Server:
    """Does what the policy decides, as an engine host would; loads and calls end when a test says so."""

    def __init__(self, **limits):
        self.now = 0.0
        self.calls = {}
        self.used = {}
        self.loads = []  # in the order of decisions
        self.leaving = {}
        self.memory = {}
        self.answers = {}
        self.failed = []
        self.sizes = {}
        self.policy = Residency(
            MemoryLimits(**limits),
            lambda name: bool(self.calls.get(name)),
            lambda name: self.used.get(name, 0.0),
            lambda: self.now,
        )

    def add(self, name, size=1, **terms):
        """A folder that changes while its load waits is loaded as it is then: that load is dropped."""
        self.sizes[name] = size
        if name in self.loads:
            self.loads.remove(name)
        self.policy.memory.found(name, Terms(size, **terms))

    def plan(self):
        for decision in self.policy.plan():
            match decision:
                case LoadModel(name, _):
                    assert name not in self.loads, "two loads of one model"
                    self.loads.append(name)
                case RetireModel(name, _):
                    self.leaving[name] = self.memory.pop(name)
                case RestoreModel(name):
                    self.memory[name] = self.leaving.pop(name)
                case FailModel(name, _):
                    self.failed.append(name)
                case AnswerClient(key, error):
                    assert key not in self.answers, "answered twice"
                    self.answers[key] = error

    def load(self, problem=None):
        """The oldest load ends."""
        name = self.loads.pop(0)
        if problem:
            self.policy.memory.failed(name, problem)
        else:
            replaced = self.memory.get(name)
            self.memory[name] = self.sizes[name]
            self.policy.memory.loaded(name, self.sizes[name])
            if replaced is not None:
                self.policy.memory.closed(name, replaced, was_last=False)
        self.plan()

    def close(self):
        """Instances without calls that are to leave are closed."""
        for name in [name for name in self.leaving if not self.calls.get(name)]:
            self.policy.memory.closed(name, self.leaving.pop(name), was_last=True)
        self.plan()

    def settle(self, dt=0.0):
        self.now += dt
        for _ in range(20):
            self.plan()
            while self.loads:
                self.load()
            self.close()

    def ask(self, name, key=None):
        key = key or f"{name}@{self.now}"
        self.policy.clients.ask(key, name)
        self.plan()
        return key


def four(**limits):
    """Four models where two fit."""
    server = Server(max_bytes=2, **limits)
    for name in "abcd":
        server.add(name)
    server.settle()
    return server


def test_what_fits_is_loaded_first_and_the_rest_by_requests():
    server = four()
    assert sorted(server.memory) == ["a", "b"]
    server.used["a"] = 1.0
    key = server.ask("c")
    server.settle(2.0)
    assert server.answers == {key: None}
    assert sorted(server.memory) == ["a", "c"]  # b was used least recently


def test_without_a_bound_all_are_loaded_and_stay():
    server = Server()
    for name in "abcd":
        server.add(name)
    server.settle(1e6)
    assert sorted(server.memory) == [*"abcd"]
    assert not server.policy.has_timers


def test_on_request_only_what_is_pinned_is_loaded_at_start():
    server = Server(on_request=True)
    for name in "abc":
        server.add(name)
    server.add("d", pinned=True)
    server.settle(1.0)
    assert sorted(server.memory) == ["d"]
    assert not server.policy.memory.is_loading  # the server is ready
    key = server.ask("b")
    server.settle(1.0)
    assert server.answers == {key: None}
    assert sorted(server.memory) == ["b", "d"]


def test_on_request_a_look_loads_what_is_loaded_and_nothing_else():
    server = Server(on_request=True)
    for name in "abc":
        server.add(name)
    server.close()
    server.ask("a")
    server.ask("b")
    server.load("its file is damaged")
    server.load()
    for name in "abc":
        server.add(name)
    server.settle(1.0)
    assert sorted(server.memory) == ["b"]
    server.ask("a")
    server.settle(1.0)
    assert sorted(server.memory) == ["a", "b"]


def test_many_requests_make_one_load():
    server = four()
    keys = [server.ask("c", key) for key in range(50)]
    server.close()
    assert server.loads == ["c"]
    server.load()
    assert server.answers == dict.fromkeys(keys)


def test_models_with_calls_do_not_leave_and_the_refusal_names_them():
    server = four()
    server.calls = {"a": 1, "b": 1}
    key = server.ask("c")
    server.settle(4.0)
    assert not server.leaving
    server.settle(60.0)
    assert isinstance(server.answers[key], Unavailable)
    assert "`a`" in str(server.answers[key])
    assert "has calls" in str(server.answers[key])


def test_a_model_whose_calls_were_to_end_takes_calls_again_when_nobody_waits_for_it():
    server = four()
    server.calls = {"a": 1, "b": 1}
    server.ask("c")
    server.settle(5.0)
    assert list(server.leaving) == ["a"]
    behind = server.ask("a")
    server.settle(30.0)
    assert behind not in server.answers
    server.settle(26.0)  # the request for c is refused
    assert server.answers[behind] is None
    assert "a" in server.memory


def test_constant_calls_keep_no_other_model_out():
    """Calls of a and b overlap without end; those that come while one is to leave wait behind c."""
    server = four()
    server.calls = {"a": 1, "b": 1}
    key = server.ask("c")
    server.settle(5.0)
    server.calls["a"] = 0  # the last call that was running; new ones wait
    server.settle()
    assert server.answers[key] is None
    assert "c" in server.memory


def test_a_model_that_never_fits_fails_at_once():
    server = four()
    server.add("e", 3)
    server.settle()
    assert server.failed == ["e"]
    key = server.ask("e")
    assert "needs" in str(server.answers[key])


def test_a_failed_load_is_tried_again_after_30_s():
    server = four()
    first = server.ask("c")
    server.close()
    server.load("it is broken")
    assert "it is broken" in str(server.answers[first])
    server.now += 29
    again = server.ask("c")
    assert server.answers[again].retry_after_s == 1
    assert not server.loads
    server.now += 1
    later = server.ask("c")
    assert server.loads == ["c"]
    server.load()
    assert server.answers[later] is None


def test_an_explicit_unload_lasts_until_a_load():
    server = Server()
    server.add("a")
    server.settle()
    server.calls["a"] = 1
    server.policy.clients.unload("u", "a")
    server.settle()
    assert "u" not in server.answers  # a call runs
    server.calls["a"] = 0
    server.settle()
    assert server.answers["u"] is None
    assert isinstance(server.answers[server.ask("a")], ModelNotFound)
    server.add("a", 2)  # an edit does not load it either
    server.settle()
    assert not server.memory
    server.policy.clients.ask("l", "a", by_hand=True)
    server.settle()
    assert server.answers["l"] is None
    assert server.memory == {"a": 2}


@pytest.mark.parametrize(
    ("keep_alive_s", "stays"), [(None, False), (0.0, False), (600.0, True), (float("inf"), True)]
)
def test_idle_models_leave_unless_they_are_kept(keep_alive_s, stays):
    server = Server(idle_s=60.0)
    server.add("a", keep_alive_s=keep_alive_s)
    server.add("p", pinned=True)
    server.settle()
    server.settle(61.0)
    assert ("a" in server.memory) == stays
    assert "p" in server.memory


def test_a_request_sets_how_long_its_model_is_kept():
    server = Server()
    server.add("a")
    server.settle()
    server.policy.memory.keep_alive("a", 5.0)
    assert server.policy.has_timers
    server.used["a"] = 1.0
    server.settle(5.9)
    assert "a" in server.memory
    server.settle(0.2)
    assert "a" not in server.memory


def test_one_group_is_loaded_at_a_time_and_as_a_whole():
    server = Server()
    for name, group in {"a": "x", "b": "x", "c": "y", "d": None}.items():
        server.add(name, group=group)
    server.settle()
    assert sorted(server.memory) == ["a", "b", "d"]
    key = server.ask("c")
    server.settle()
    assert server.answers[key] is None
    assert sorted(server.memory) == ["c", "d"]


def test_a_changed_folder_is_loaded_beside_its_instance_or_after_it():
    server = Server(max_bytes=3)
    server.add("a", 1)
    server.settle()
    server.add("a", 2)
    server.plan()
    assert server.loads == ["a"]
    assert server.memory == {"a": 1}
    server.load()
    server.add("a", 2)
    server.plan()
    assert not server.loads
    assert server.leaving == {"a": 2}
    server.settle()
    assert server.memory == {"a": 2}


@pytest.mark.parametrize("seed", range(12))
def test_random_steps_break_no_rule(seed):
    """Never over the bound, never two loads of one model (`Server.plan`), and every request is answered."""
    draw = random.Random(seed)
    server = Server(max_bytes=4, idle_s=draw.choice([None, 20.0]), load_timeout_s=30.0)
    names = [*"abcdef"]
    terms = {name: {"group": draw.choice([None, None, "x", "y"])} for name in names}
    terms["a"] = {"pinned": draw.random() < 0.3}
    present, served = set(), []
    for _ in range(400):
        name = draw.choice(names)
        match draw.randrange(9):
            case 0:
                server.add(name, draw.choice([1, 1, 2]), **terms[name])
                present.add(name)
            case 1 if draw.random() < 0.2 and name in present and name not in server.loads:
                server.policy.memory.gone(name)
                if name in server.memory:
                    server.leaving[name] = server.leaving.pop(name, 0) + server.memory.pop(name)
                present.discard(name)
            case 2 if server.loads:
                server.load(draw.choice([None, None, None, "broken"]))
            case 3:
                server.close()
            case 4 if name in server.memory:
                server.calls[name] = server.calls.get(name, 0) + 1
                server.used[name] = server.now
            case 5 if server.calls.get(name):
                server.calls[name] -= 1
                server.used[name] = server.now
            case 6:
                served.append(server.ask(name, len(served)))
            case 7 if draw.random() < 0.2:
                served.append(len(served))
                (server.policy.clients.unload if draw.random() < 0.5 else server.policy.clients.ask)(
                    served[-1], name
                )
            case 8 if served:
                server.policy.clients.withdraw(draw.choice(served))
        server.now += draw.choice([0.0, 0.1, 3.0])
        server.plan()
        arriving = sum(server.policy.memory.residents[name].arriving for name in server.loads)
        assert sum(server.memory.values()) + sum(server.leaving.values()) + arriving <= 4
    waiting = set(served) & {*server.policy.clients._wishes, *server.policy.clients._unloads}
    server.calls.clear()
    for key in [key for key, wish in server.policy.clients._wishes.items() if wish.granted]:
        server.policy.clients.withdraw(key)
    for _ in range(100):
        server.settle(1.0)
        for key in [key for key, wish in server.policy.clients._wishes.items() if wish.granted]:
            server.policy.clients.withdraw(key)
    assert waiting <= server.answers.keys()
