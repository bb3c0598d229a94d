"""What Braid computes from the grids of images equals what transformers computes in Qwen-VL."""

from __future__ import annotations

import numpy as np
import pytest
from later import Later, missing

if missing("torch"):
    pytest.skip("needs the extra export", allow_module_level=True)

from tiny_qwen_vl import BEGIN_ID, END_ID, FAMILIES, IMAGE_ID, qwen_model

from pipelines.inference.backends.grid_inputs import (
    CORNERS,
    ORDER,
    ROTATIONS,
    SEEN,
    SHARES,
    WINDOWS,
    grid_inputs,
    read_patches,
)
from pipelines.inference.engine.sequences.prompt_embeds import PromptEmbeds

torch = Later("torch")

GRIDS = [(2, 3), (1, 4), (5, 5), (1, 1), (3, 2)]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request):
    return qwen_model(request.param)


def patches_of(grids):
    """int64[images, 3]: frames, rows and columns of patches."""
    return torch.tensor([[1, 2 * rows, 2 * columns] for rows, columns in grids])


def test_angles_and_windows_of_patches(model):
    patches = read_patches({"vision_config": model.config.vision_config.to_dict()})
    patches_there = patches_of(GRIDS)
    angles = model.visual.rot_pos_emb(patches_there).numpy()
    inputs = grid_inputs(np.array(GRIDS, np.int32), patches, angles.shape[1])
    np.testing.assert_allclose(inputs[ROTATIONS], angles, rtol=1e-6)
    seen = [np.ones((4 * rows * columns,) * 2, bool) for rows, columns in GRIDS]
    assert ((inputs[SEEN][0] == 0) == whole(seen)).all()
    if hasattr(model.visual, "fast_pos_embed_interpolate"):
        table = model.visual.pos_embed.weight.detach().numpy()
        placed = (table[inputs[CORNERS]] * inputs[SHARES][:, :, None]).sum(0)
        wanted = model.visual.fast_pos_embed_interpolate(patches_there).detach().numpy()
        np.testing.assert_allclose(placed, wanted, atol=1e-6)
    if hasattr(model.visual, "get_window_index"):
        order, ends = model.visual.get_window_index(patches_there)
        sizes = np.diff(np.unique(ends))
        assert inputs[ORDER].tolist() == order.tolist()
        assert ((inputs[WINDOWS][0] == 0) == whole([np.ones((size, size), bool) for size in sizes])).all()


def whole(blocks):
    """The blocks along a diagonal."""
    found, at = np.zeros((sum(map(len, blocks)),) * 2, bool), 0
    for block in blocks:
        found[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return found


@pytest.mark.parametrize("text", [[], [7], [7, 8, 9]])
def test_positions_of_tokens(model, text):
    ids, starts = [*text], []
    for rows, columns in GRIDS:
        starts.append(len(ids) + 1)
        ids += [BEGIN_ID, *[IMAGE_ID] * (rows * columns), END_ID, *text]
    values = [np.zeros((rows * columns, 1), np.float32) for rows, columns in GRIDS]
    images = PromptEmbeds(starts, values, [b""] * len(GRIDS), GRIDS)
    assert images.positions is not None
    positions = np.tile(np.arange(len(ids)) + images.positions.shifts(0, len(ids)), (3, 1))
    positions[:, images.places] = images.positions.axes
    wanted, shift = model.model.get_rope_index(torch.tensor([ids]), patches_of(GRIDS))
    assert positions.tolist() == wanted[:, 0].tolist()
    assert images.positions.last_shift == int(shift)
