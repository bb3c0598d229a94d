"""Rows in the place of a prompt's tokens: text in any schedule equals text alone, and images are not mixed up."""

from __future__ import annotations

import random

import numpy as np
import pytest
from breadth import after
from engine_rig import VOCAB_SIZE, Rig
from oracle_speculator import OracleSpeculator

from pipelines.base.errors import RequestError
from pipelines.inference.backends.fake_decoder import fake_logits, with_axes
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds
from pipelines.wire.sampling_params import SamplingParams

IMAGE = 96
"""The id of every token that stands for a part of an image."""


def rows(*numbers):
    """An image whose rows begin with these numbers."""
    return np.array([[number, 7.0] for number in numbers], np.float32)


def grid_of(image):
    """Rows and columns of its tokens: two rows where it has an even number of them."""
    return (2, len(image) // 2) if len(image) % 2 == 0 else (1, len(image))


def prompt_with(*parts, axes=1):
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
    grids = [grid_of(part) for part in values] if axes > 1 else []
    return ids, PromptEmbeds(starts, values, [part.tobytes() for part in values], grids)


def positions_of(num_tokens, images):
    """[num_tokens, 3]: time, row and column of each token, counted one by one."""
    grids = {} if images is None else dict(zip(images.starts, images.grids, strict=True))
    found, following = [], 0
    while len(found) < num_tokens:
        rows, columns = grids.get(len(found), (1, 1))
        places = [(row, column) for row in range(rows) for column in range(columns)]
        found += [(following, following + row, following + column) for row, column in places]
        following += max(rows, columns)
    return np.array(found)


def greedy_alone(ids, images, num_tokens, axes=1, whole=False):
    seen = np.array(ids)
    if images is not None:
        numbers = [rows[:, 0] + rows[:, 0].sum() * whole for rows in images.values]
        seen[images.places] = np.concatenate(numbers)
    text = []
    positions = positions_of(len(seen) + num_tokens, images).T if axes > 1 else None
    for _ in range(num_tokens):
        context = seen if positions is None else with_axes(seen, positions[:, : len(seen)])
        text.append(int(fake_logits([context], VOCAB_SIZE).argmax()))
        seen = np.append(seen, text[-1])
    return text


class ImageSchedule:
    """Requests with the same few images and texts, so that prefixes meet, of which some are preempted.

    `whole`: the tokens of an image attend to one another.
    """

    def __init__(self, seed, axes=1, whole=False):
        self.axes, self.whole = axes, whole
        self.draw = draw = random.Random(seed)
        self.rig = Rig(
            max_sequences=3,
            max_step_tokens=draw.choice([15, 17, 40] if whole else [4, 7, 40]),
            num_blocks=draw.choice([17, 30]),
            block_tokens=draw.choice([2, 4]),
            reuse_prefixes=draw.random() < 0.8,
            num_host_blocks=draw.choice([0, 20]),
            embeds_size=2,
            mrope_axes=axes,
            num_draft_tokens=3 if axes > 1 else 0,
            whole_images=whole,
        )
        if axes > 1:
            OracleSpeculator(self.rig, lambda *at: self.wanted[at], draw, draw.choice([0.0, 0.5]))
        self.images = [
            rows(*(draw.randrange(100, 1000) for _ in range(draw.randint(1, 6)))) for _ in range(2)
        ]
        self.images.append(self.images[0] + 1)  # of equal length, with other content
        self.wanted = {}

    def prompt(self):
        draw = self.draw
        parts = [draw.choice([[1, 2], [3], [4, 5, 6], *self.images]) for _ in range(draw.randint(1, 4))]
        if self.whole:  # between images there is text
            parts = [part for each in parts for part in (each, [7])][:-1]
        return prompt_with(*parts, axes=self.axes)

    def run(self):
        key = 0
        while key < 12 or self.rig.engine.has_work:
            if key < 12 and self.draw.random() < 0.5:
                prompts = [self.prompt() for _ in range(self.draw.choice([1, 2]))]
                n, num_tokens = self.draw.choice([1, 1, 2]), self.draw.randint(1, 8)
                ids, images = zip(*prompts, strict=True)
                images = images if any(images) else ()
                self.rig.submit(key, *ids, n=n, images=images, max_tokens=num_tokens, ignore_eos=True)
                for place, prompt in enumerate(prompts):
                    for choice in range(n):
                        alone = greedy_alone(*prompt, num_tokens, self.axes, self.whole)
                        self.wanted[key, place * n + choice] = alone
                key += 1
            running = self.rig.engine.scheduler.running
            if len(running) > 1 and self.draw.random() < 0.1:
                self.rig.engine.scheduler._preempt(running[-1])
            self.rig.step()
        return self.rig.engine.counts()


@pytest.mark.parametrize(("seed", "whole"), after(4, [(seed, bool(seed % 2)) for seed in range(300)]))
def test_text_with_images_in_any_schedule_equals_text_alone(seed, whole):
    schedule = ImageSchedule(seed, whole=whole)
    schedule.run()
    assert {at: text.token_ids for at, text in schedule.rig.texts.items()} == schedule.wanted


@pytest.mark.parametrize("seed", after(3, range(200)))
def test_positions_on_three_axes_in_any_schedule_are_those_of_the_prompt_alone(seed):
    """With draft tokens, some of them wrong."""
    schedule = ImageSchedule(seed, axes=3)
    schedule.run()
    assert {at: text.token_ids for at, text in schedule.rig.texts.items()} == schedule.wanted


def test_steps_without_images_have_no_shifts():
    rig = Rig(embeds_size=2, mrope_axes=3)
    rig.submit(0, [1, 2, 3], max_tokens=3, ignore_eos=True)
    rig.run()
    assert all(step.position_shifts is None is step.embeds for step in rig.steps)
    ids, images = prompt_with([1], rows(1, 2, 3, 4), axes=3)
    rig.submit(1, ids, images=[images], max_tokens=3, ignore_eos=True)
    rig.run()
    assert [step.position_shifts.tolist() for step in rig.steps[3:]] == [[0, 0, 0, 0, 0], [-2], [-2]]
    assert rig.steps[3].embeds.positions.tolist() == [[1, 1, 1, 1], [1, 1, 2, 2], [1, 2, 1, 2]]
    assert [step.max_context for step in rig.steps[3:]] == [5, 6, 7]


@pytest.mark.breadth
def test_the_schedules_meet_preemption_reuse_and_prompts_that_end_with_an_image():
    schedules = [ImageSchedule(seed) for seed in range(15)]
    counts = [schedule.run() for schedule in schedules]
    assert sum(one.preemptions for one in counts) > 10
    assert sum(one.prefix_hit_tokens for one in counts) > 50
    steps = [step for schedule in schedules for step in schedule.rig.steps]
    alone = [step for step in steps if step.num_seqs == step.num_tokens and step.embeds is not None]
    assert len(alone) > 3  # of one token each, one of which is of an image
    assert all(len(step.embeds.values) for step in steps if step.embeds is not None)


def cached_after(first, second, whole=False):
    """Prompt tokens of `second` that are found again after `first`."""
    rig = Rig(max_step_tokens=40, embeds_size=2, whole_images=whole)
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


def test_whole_images_meet_preemption_and_reuse_and_are_never_cut():
    counts = [ImageSchedule(seed, whole=True).run() for seed in range(4)]
    assert sum(count.preemptions for count in counts) > 4
    assert sum(count.prefix_hit_tokens for count in counts) > 20
    text, image_rows = [1, 2, 3], rows(1, 2, 3, 4, 5, 6)
    prompt = prompt_with(text, image_rows, [4], image_rows, text)  # blocks of 4 tokens; images at 3 and at 10
    assert cached_after(prompt, prompt) == 16
    assert cached_after(prompt, prompt, whole=True) == 16
    longer = prompt_with([0, *text], image_rows, text)  # the image ends after 10 tokens, a block after 12
    assert cached_after(longer, longer, whole=True) == 12
    ending = prompt_with(text, image_rows, [4])
    assert cached_after(ending, ending) == 8
    assert cached_after(ending, ending, whole=True) == 0
    two = prompt_with([0, *text], image_rows[:3], [0, *text], image_rows, [4])  # images at 4 and at 11
    assert (cached_after(two, two), cached_after(two, two, whole=True)) == (16, 8)


def test_a_whole_image_needs_room_in_a_step_and_has_no_scores():
    rig = Rig(max_sequences=2, max_step_tokens=11, embeds_size=2, whole_images=True)
    ids, images = prompt_with(rows(1, 2, 3, 4))
    assert rig.engine.limits.max_uncut == 4
    for params, prompt in (({}, prompt_with(rows(1, 2, 3, 4, 5))), ({"prompt_logprobs": 0}, (ids, images))):
        with pytest.raises(RequestError, match="max_step_tokens|no log-probabilities"):
            rig.submit(0, prompt[0], images=[prompt[1]], max_tokens=2, **params)
    rig.submit(1, ids, images=[images], max_tokens=2, ignore_eos=True)
    rig.submit(2, [1, 2, 3], images=[], max_tokens=2, prompt_logprobs=0)
    rig.run()
    assert rig.texts[1, 0].token_ids == greedy_alone(ids, images, 2, whole=True)


@pytest.mark.parametrize(
    ("embeds_size", "images", "words"),
    [
        (0, [PromptEmbeds([0], [rows(1)], [b""])], "takes text only"),
        (3, [PromptEmbeds([0], [rows(1)], [b""])], "rows of 3 numbers"),
        (2, [PromptEmbeds([2], [rows(1, 2)], [b""])], "other places"),
        (2, [PromptEmbeds([-1], [rows(1, 2)], [b""])], "other places"),
        (2, [PromptEmbeds([0, 1], [rows(1, 2), rows(3)], [b"", b""])], "other places"),
        (2, [None, None], "images of 2 prompts"),
        (2, [PromptEmbeds([0], [rows(1, 2)], [b""], [(1, 2)])], "positions have 1 axes"),
    ],
)
def test_images_that_do_not_fit_are_refused(embeds_size, images, words):
    rig = Rig(embeds_size=embeds_size)
    request = GenerationRequest([[1, 2, 3]], SamplingParams(max_tokens=2), images=images)
    with pytest.raises(RequestError, match=words):
        rig.engine.submit(0, request)
    assert not rig.engine.has_work


@pytest.mark.parametrize("grids", [[], [(1, 3)], [(1, 1), (1, 1)]])
def test_images_of_other_grids_than_their_tokens_are_refused(grids):
    rig = Rig(embeds_size=2, mrope_axes=3)
    images = [PromptEmbeds([0], [rows(1, 2)], [b""], grids)]
    with pytest.raises(RequestError, match="positions have 3 axes"):
        rig.engine.submit(0, GenerationRequest([[1, 2, 3]], SamplingParams(max_tokens=2), images=images))
