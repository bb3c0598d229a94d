"""Engines' counts become numbers: how large steps are, and which caches there are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.host.metrics_publisher import Publisher
from pipelines.host.models.in_flight import Calls
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.exposition import render
from pipelines.telemetry.step_profile import StepProfile


class Engine:
    def __init__(self, **counts):
        self.profile = StepProfile()
        self.now = Counts(**counts)

    def counts(self):
        return self.now


@pytest.fixture
def scene(request):
    """A model's name, its engine, and a publisher for both."""
    name = request.node.name
    engine = Engine(block_tokens=16, blocks_total=100, reuses_prefixes=True)
    load = SimpleNamespace(
        folder=SimpleNamespace(name=name),
        model=SimpleNamespace(engines={"generated": engine}, threaded={}),
        adapters={},
    )
    instances = [load]
    return SimpleNamespace(
        name=name, engine=engine, instances=instances, publisher=Publisher(instances, Calls())
    )


def value(start, *parts):
    rows = [row for row in render().decode().splitlines() if row.startswith(start + "{")]
    return sum(float(row.rsplit(" ", 1)[1]) for row in rows if all(part in row for part in parts))


def test_a_step_is_told_with_its_tokens_and_a_failed_one_is_not(scene):
    for num_tokens in (5, 0, 4):
        scene.publisher.note_step(scene.name, num_tokens)
    assert value("vllm:iteration_tokens_total_count", scene.name) == 0, "no step waits for that"
    scene.publisher.publish(busy=False)
    assert value("vllm:iteration_tokens_total_count", scene.name) == 2
    assert value("vllm:iteration_tokens_total_sum", scene.name) == 9


def test_a_cache_goes_with_its_load(scene):
    def told(**labels):
        parts = [f'{name}="{label}"' for name, label in labels.items()]
        return value("vllm:cache_config_info", scene.name, *parts)

    scene.publisher.note_change()
    scene.publisher.publish(busy=False)
    assert told(block_size=16, num_gpu_blocks=100, enable_prefix_caching=True) == 1
    scene.instances.clear()
    scene.publisher.note_change()
    scene.publisher.publish(busy=False)
    assert told() == 0


def test_an_engine_without_blocks_has_no_cache_to_tell(scene):
    scene.engine.now = Counts()
    scene.publisher.note_change()
    scene.publisher.publish(busy=False)
    assert value("vllm:cache_config_info", scene.name) == 0


def test_places_of_guesses_are_counted_once(scene):
    for accepted in (1, 3):
        scene.engine.now = Counts(drafts=accepted, accepted_per_position=[accepted])
        scene.publisher.note_change()
        scene.publisher.publish(busy=False)
    assert value("vllm:spec_decode_num_accepted_tokens_per_pos_total", scene.name, 'position="0"') == 3


def test_there_is_news_until_it_is_written(scene):
    scene.publisher.note_change()
    scene.publisher.publish(busy=True)
    assert scene.publisher.has_news
    scene.publisher.publish(busy=False)
    assert not scene.publisher.has_news


def test_sets_of_adapters_are_published_and_bounded(scene, monkeypatch):
    monkeypatch.setattr("pipelines.host.metrics_publisher.MAX_LORA_LOADS", 2)
    seen = []
    for running in ([], ["a"], ["a"], ["b"], ["c"], []):
        places = SimpleNamespace(max_loaded=2, max_rank=8, waiting=[], running=running)
        scene.publisher._publish_adapters(scene.name, places)
        seen.append(
            value("vllm:lora_requests_info", scene.name, f'running_lora_adapters="{",".join(running)}"')
        )
    assert [number > 0 for number in seen] == [True, True, True, False, False, True]
    assert value("vllm:lora_requests_info", scene.name, '"..."') == 0
