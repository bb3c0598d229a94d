"""What two hosts serve together, in numbers of the worker's own."""

from __future__ import annotations

import pytest

from pipelines.wire.messages import AdapterStatus, GraphText, ModelStatus, Status
from pipelines.worker.engines.merged_status import MergedStatus


def ready(instance_id, fingerprint="a", name="m", **more):
    return ModelStatus(
        name, 1, instance_id, "ready", graphs={name: GraphText("graph")}, fingerprint=fingerprint, **more
    )


def host(*models, state="ready", number=1, pid=1):
    return Status(pid, state, list(models), number)


@pytest.fixture
def merged():
    return MergedStatus(2)


def model_of(status, name="m"):
    return next(model for model in status.models if model.name == name)


def test_instances_of_the_same_files_have_one_number(merged):
    first = model_of(merged.take(0, host(ready(71))))
    both = model_of(merged.take(1, host(ready(93))))
    assert first.instance_id == both.instance_id
    assert [merged.instance(engine, both.instance_id) for engine in (0, 1)] == [71, 93]
    assert both.replaced == []


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("loading", "ready"), "ready"),
        (("unloaded", "loading"), "loading"),
        (("failed", "unloaded"), "unloaded"),
        (("failed", "failed"), "failed"),
        (("unloading", "ready"), "ready"),
    ],
)
def test_a_model_is_what_it_is_somewhere(merged, states, expected):
    for engine, state in enumerate(states):
        model = ready(5) if state == "ready" else ModelStatus("m", 1, 0, state, ["broken"])
        status = merged.take(engine, host(model))
    found = model_of(status)
    assert found.state == expected
    assert bool(found.instance_id) == (expected == "ready")
    assert found.problems == [
        f"engine {engine}: broken" for engine, state in enumerate(states) if state != "ready"
    ]


def test_in_the_middle_of_a_reload_what_was_seen_last_is_served_and_the_old_one_still_takes_calls(merged):
    merged.take(0, host(ready(71)))
    old = model_of(merged.take(1, host(ready(93))))
    new = model_of(merged.take(0, host(ready(72, "b", replaced=[71]))))
    assert new.instance_id > old.instance_id
    assert (new.fingerprint, new.replaced) == ("b", [old.instance_id])
    assert [merged.instance(engine, old.instance_id) for engine in (0, 1)] == [71, 93]
    assert [merged.instance(engine, new.instance_id) for engine in (0, 1)] == [72, None]
    done = model_of(merged.take(1, host(ready(94, "b"))))
    assert (done.instance_id, done.replaced) == (new.instance_id, [old.instance_id])
    assert merged.instance(1, new.instance_id) == 94
    assert merged.instance(1, old.instance_id) is None


def test_a_host_that_comes_back_has_what_the_others_have(merged):
    merged.take(0, host(ready(71)))
    before = model_of(merged.take(1, host(ready(93))))
    alone = merged.take(1, None)
    assert (alone.state, model_of(alone)) == ("ready", before)
    assert merged.instance(1, before.instance_id) is None
    merged.take(1, host(state="starting"))
    assert model_of(merged.take(1, host(ready(1001)))) == before
    assert merged.instance(1, before.instance_id) == 1001


def test_without_a_host_there_is_no_status_and_no_number_comes_back(merged):
    number = model_of(merged.take(0, host(ready(71)))).instance_id
    assert merged.take(0, None) is None
    assert model_of(merged.take(0, host(ready(71)))).instance_id > number


def test_statuses_are_numbered_and_each_host_hears_of_its_own(merged):
    first = merged.take(0, host(ready(71), number=40))
    second = merged.take(1, host(ready(93), number=7))
    assert [merged.followed(engine, first.number) for engine in (0, 1)] == [40, 0]
    assert [merged.followed(engine, second.number) for engine in (0, 1)] == [40, 7]
    assert merged.followed(0, first.number) == 0  # long ago


def test_each_host_hears_of_its_own_instances_in_use(merged):
    one = model_of(merged.take(0, host(ready(71)))).instance_id
    other = model_of(merged.take(1, host(ready(93), ready(94, name="n"))), "n").instance_id
    assert [merged.in_use(engine, [one, other, 10**6]) for engine in (0, 1)] == [[71], [93, 94]]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("draining", "ready"), "ready"),
        (("starting", "draining"), "starting"),
        (("draining",) * 2, "draining"),
    ],
)
def test_together_they_are_as_able_as_the_ablest(merged, states, expected):
    for engine, state in enumerate(states):
        status = merged.take(engine, host(state=state))
    assert status.state == expected


def test_an_adapter_that_one_host_can_use_can_be_used(merged):
    broken, fine = AdapterStatus("fr", 3, "/fr", 1, "no file"), AdapterStatus("fr", 9, "/fr", 1)
    refused = model_of(merged.take(0, host(ready(71, adapters=[broken]))))
    assert refused.adapters[0].problem == "no file"
    found = model_of(merged.take(1, host(ready(93, adapters=[fine])))).adapters
    assert [(each.name, each.problem) for each in found] == [("fr", "")]
    assert [merged.adapter(engine, found[0].number) for engine in (0, 1)] == [None, 9]
    assert [merged.adapter(engine, 0) for engine in (0, 1)] == [0, 0]


def test_the_shortest_context_counts(merged):
    merged.take(0, host(ready(71, max_context=4096)))
    assert model_of(merged.take(1, host(ready(93, max_context=2048)))).max_context == 2048
