"""Random images in requests, valid and spoiled: each is read or refused with a reason, and none stays."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from breadth import after

pytest.importorskip("PIL", reason="needs the extra vision")

from random_images import random_body
from scripted import ScriptedPipeline

from pipelines.nodes.images.decoding import ImageLimits
from pipelines.nodes.images.image_tensors import image_tensors
from pipelines.nodes.images.images import ReadImages
from pipelines.nodes.images.qwen_vl import read_qwen_vl

NUM_CASES = int(os.environ.get("BRAID_IMAGE_CASES", 2000))
"""Of the broader run."""
PIXELS = {
    "rescale_factor": 1 / 255,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 3,
    "min_pixels": 4 * 28**2,
    "max_pixels": 16 * 28**2,
}
MOST_GROWTH = 24 << 20


class ReadingPipeline(ScriptedPipeline):
    """Reads the images of each request as a vision model does, and counts them."""

    def __init__(self):
        super().__init__()
        reader = ReadImages(ReadImages.Config(model="config.json", settings="config.json"), None)
        reader.family = read_qwen_vl({"image_token_id": 9, "vision_config": {}}, PIXELS)
        reader.limits = ImageLimits(100_000, 1_000_000)
        self.reader, self.num_images = reader, 0
        self.lines = [*self.lines, SimpleNamespace(node=reader)]

    def prepare(self, generation, client, tenant="", earlier=None, trace=None):
        images = self.reader.read(generation.images)
        if images.lengths:
            assert len(image_tensors(images, generation)["features"]) == sum(images.lengths)
        self.num_images += len(images.lengths)
        generation.images.clear()
        self.calls.clear()
        return super().prepare(generation, client, tenant, earlier)


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("seed", "num_cases"), after(1, [(1, 120), (2, NUM_CASES)]))
def test_each_is_read_or_refused_and_none_stays(make_rig, seed, num_cases):
    rig, draw, sizes = make_rig(ReadingPipeline()), Random(seed), []

    async def scenario(client):
        statuses = Counter()
        for i in range(num_cases):
            path, body = random_body(draw)
            answer = await client.post(path, body)
            assert answer.status < 500, (path, body, answer.body)
            if answer.status != 200:
                assert answer.json, (path, body)
            statuses[answer.status] += 1
            if i % (num_cases // 4) == 0:
                sizes.append(resident_bytes())
        return statuses

    statuses = rig.run(scenario)
    assert min(statuses[200], statuses[400], rig.pipeline.num_images) > num_cases // 10, statuses
    assert resident_bytes() - sizes[1] < MOST_GROWTH
