"""Rows in the place of a prompt's tokens: text in any schedule equals text alone, and images are not mixed up."""

from __future__ import annotations

import random

import numpy as np
import pytest
from breadth import after
from engine_rig import VOCAB_SIZE, Rig

from pipelines.errors import RequestError
from pipelines.host.backends.fake_decoder import fake_logits
from pipelines.host.engine.engine_contract import GenerationRequest
from pipelines.host.engine.prompt_rows import PromptRows
from pipelines.wire.sampling_params import SamplingParams

IMAGE = 96
"""The id of every token that stands for a part of an image."""


def rows(*numbers):
    """An image whose rows begin with these numbers."""
    return np.array([[number, 7.0] for number in numbers], np.float32)


def prompt_with(*parts):
    """(ids, images) of texts and images in order."""
    ids, images = [], []
    for part in parts:
        if isinstance(part, np.ndarray):
            images.append((len(ids), part))
            ids += [IMAGE] * len(part)
        else:
            ids += part
    if not images:
        return ids, None
    starts, values = zip(*images, strict=True)
    return ids, PromptRows(starts, values, [part.tobytes() for part in values])


def greedy_alone(ids, images, num_tokens):
    seen = np.array(ids)
    if images is not None:
        seen[images.places] = images.rows[:, 0]
    context, text = seen.tolist(), []
    for _ in range(num_tokens):
        token = int(fake_logits([np.array(context)], VOCAB_SIZE).argmax())
        text.append(token)
        context.append(token)
    return text


class ImageSchedule:
    """Requests with the same few images and texts, so that prefixes meet, of which some are preempted."""

    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        self.rig = Rig(
            max_sequences=3,
            max_step_tokens=draw.choice([4, 7, 40]),
            num_blocks=draw.choice([17, 30]),
            block_tokens=draw.choice([2, 4]),
            reuse_prefixes=draw.random() < 0.8,
            num_host_blocks=draw.choice([0, 20]),
            row_size=2,
        )
        self.images = [
            rows(*(draw.randrange(100, 1000) for _ in range(draw.randint(1, 6)))) for _ in range(2)
        ]
        self.images.append(self.images[0] + 1)  # of equal length, with other content
        self.wanted = {}

    def prompt(self):
        draw = self.draw
        parts = [draw.choice([[1, 2], [3], [4, 5, 6], *self.images]) for _ in range(draw.randint(1, 4))]
        return prompt_with(*parts)

    def run(self):
        key = 0
        while key < 12 or self.rig.engine.has_work:
            if key < 12 and self.draw.random() < 0.5:
                prompts = [self.prompt() for _ in range(self.draw.choice([1, 2]))]
                n, num_tokens = self.draw.choice([1, 1, 2]), self.draw.randint(1, 8)
                ids, images = zip(*prompts, strict=True)
                images = images if any(images) else ()
                self.rig.submit(key, *ids, n=n, images=images, max_tokens=num_tokens, ignore_eos=True)
                for place, one in enumerate(prompts):
                    for choice in range(n):
                        self.wanted[key, place * n + choice] = greedy_alone(*one, num_tokens)
                key += 1
            running = self.rig.engine.scheduler.running
            if len(running) > 1 and self.draw.random() < 0.1:
                self.rig.engine.scheduler._preempt(running[-1])
            self.rig.step()
        return self.rig.engine.counts()


@pytest.mark.parametrize("seed", after(8, range(200)))
def test_text_with_images_in_any_schedule_equals_text_alone(seed):
    schedule = ImageSchedule(seed)
    schedule.run()
    assert {at: text.token_ids for at, text in schedule.rig.texts.items()} == schedule.wanted


def test_the_schedules_meet_preemption_reuse_and_prompts_that_end_with_an_image():
    schedules = [ImageSchedule(seed) for seed in range(15)]
    counts = [schedule.run() for schedule in schedules]
    assert sum(one.preemptions for one in counts) > 10
    assert sum(one.prefix_hit_tokens for one in counts) > 50
    steps = [step for schedule in schedules for step in schedule.rig.steps]
    alone = [step for step in steps if step.num_seqs == step.num_tokens and len(step.given_places)]
    assert len(alone) > 3  # of one token each, one of which is of an image
    assert all(step.given_rows.shape == (0, 0) for step in steps if not len(step.given_places))


def cached_after(first, second):
    """Prompt tokens of `second` that are found again after `first`."""
    rig = Rig(row_size=2)
    for key, (ids, images) in enumerate((first, second)):
        rig.submit(key, ids, images=[images] if images else (), max_tokens=2, ignore_eos=True)
        while rig.engine.has_work:
            rig.step()
    return rig.texts[1, 0].outputs[0].piece.num_cached


def test_only_the_same_image_in_the_same_place_is_found_again():
    text, one, other = [1, 2, 3], rows(1, 2, 3, 4, 5), rows(1, 2, 3, 4, 6)
    first = prompt_with(text, one, text)  # blocks of 4 tokens
    assert cached_after(first, prompt_with(text, one, text)) == 8
    assert cached_after(first, prompt_with(text, other, text)) == 0
    assert cached_after(first, prompt_with(text, [IMAGE] * 5, text)) == 0
    assert cached_after(prompt_with(text + text, one), prompt_with(text + text, other)) == 4
    assert cached_after(prompt_with(one, one[:3]), prompt_with(one, one[:3])) == 4
    assert cached_after(prompt_with([1], one, one[:3]), prompt_with([1], one[:3], one)) == 0


@pytest.mark.parametrize(
    ("row_size", "images", "words"),
    [
        (0, [PromptRows([0], [rows(1)], [b""])], "takes text only"),
        (3, [PromptRows([0], [rows(1)], [b""])], "rows of 3 numbers"),
        (2, [PromptRows([2], [rows(1, 2)], [b""])], "other places"),
        (2, [PromptRows([-1], [rows(1, 2)], [b""])], "other places"),
        (2, [PromptRows([0, 1], [rows(1, 2), rows(3)], [b"", b""])], "other places"),
        (2, [None, None], "images of 2 prompts"),
    ],
)
def test_images_that_do_not_fit_are_refused(row_size, images, words):
    rig = Rig(row_size=row_size)
    request = GenerationRequest([[1, 2, 3]], SamplingParams(max_tokens=2), images=images)
    with pytest.raises(RequestError, match=words):
        rig.engine.submit(0, request)
    assert not rig.engine.has_work
