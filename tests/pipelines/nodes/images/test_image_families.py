"""What families read of an image, pixels and text, equals what their processors in transformers make of it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from PIL import Image

from pipelines.nodes.images.families import FAMILIES

COLOURS = {"rescale_factor": 1 / 255, "image_mean": [0.5, 0.4, 0.5], "image_std": [0.5, 0.5, 0.3]}
WHOLE = {"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 56, "width": 56}, "resample": 2}
TILED = {
    "image_processor_type": "Idefics3ImageProcessor",
    "size": {"longest_edge": 112},
    "max_image_size": {"longest_edge": 56},
    "resample": 1,
}
VISION = {"image_size": 56, "patch_size": 14}
GEMMA3 = {"vision_config": VISION, "mm_tokens_per_image": 4, "image_token_index": 9}
IDEFICS3 = {"vision_config": VISION, "scale_factor": 2, "image_token_id": 9}
INTERNVL = {
    "vision_config": VISION,
    "img_context_token_id": 9,
    "dynamic_image_size": True,
    "max_dynamic_patch": 12,
}
SIZES = [
    (40, 30),
    (90, 31),
    (31, 90),
    (56, 56),
    (5, 300),
    (57, 56),
    (200, 199),
    (6, 7),
    (112, 112),
    (640, 111),
]


def noise(width, height):
    values = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(values)


def test_gemma3_reads_the_whole_image_and_writes_lines_around_it():
    transformers = pytest.importorskip("transformers", reason="needs the export extra")
    family, image = FAMILIES["gemma3"](GEMMA3, {**WHOLE, **COLOURS}), noise(90, 31)
    read = family.read(image)
    settings = {**WHOLE, **COLOURS}
    del settings["image_processor_type"]
    want = transformers.Gemma3ImageProcessor(**settings)(image)["pixel_values"]
    assert np.abs(read.pixels - np.stack(want)).max() < 1e-5
    assert read.text == "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"
    assert (read.num_tokens, family.token_id) == (4, 9)
    assert family.marks[0] == "<start_of_image>"


@pytest.mark.parametrize("splits", [True, False])
def test_idefics3_reads_tiles_in_rows_and_then_the_whole_image(splits):
    transformers = pytest.importorskip("transformers", reason="needs the export extra")
    from transformers.models.idefics3.processing_idefics3 import get_image_prompt_string

    settings = {**TILED, **COLOURS, "do_image_splitting": splits}
    family = FAMILIES["idefics3"](IDEFICS3, settings)
    del settings["image_processor_type"]
    processor = transformers.Idefics3ImageProcessor(**settings)
    for size in SIZES:
        image = noise(*size)
        read, want = family.read(image), processor([[image]], return_row_col_info=True)
        assert read.pixels.dtype == np.float32
        assert read.pixels.shape == np.shape(want["pixel_values"][0]), size
        assert np.abs(read.pixels - np.stack(want["pixel_values"][0])).max() < 1e-5, size
        assert np.all(want["pixel_attention_mask"])
        (rows,), (columns,) = want["rows"][0], want["cols"][0]
        marks = ("<fake_token_around_image>", "<image>", "<global-img>")
        assert read.text == get_image_prompt_string(rows, columns, 1, *marks), size
        assert read.num_tokens == 4


@pytest.mark.parametrize("thumbnail", [True, False])
def test_internvl_reads_as_many_tiles_as_fit_the_shape(thumbnail):
    transformers = pytest.importorskip("transformers", reason="needs the export extra")
    family = FAMILIES["internvl_chat"]({**INTERNVL, "use_thumbnail": thumbnail}, COLOURS)
    processor = transformers.GotOcr2ImageProcessor(size=WHOLE["size"], **COLOURS)
    for size in SIZES:
        image = noise(*size)
        read = family.read(image)
        cut = processor.crop_image_to_patches(
            np.asarray(image), 1, 12, use_thumbnail=thumbnail, patch_size=WHOLE["size"]
        )
        want = processor(cut, crop_to_patches=False)["pixel_values"]
        assert read.pixels.shape == np.shape(want), size
        assert np.abs(read.pixels - np.stack(want)).max() < 1e-5, size
        assert read.text == f"<img>{'<IMG_CONTEXT>' * len(want)}</img>"
        assert read.num_tokens == 4


@pytest.mark.parametrize("merge", [1, 2])
def test_pixtral_keeps_the_shape_and_ends_each_row(merge):
    transformers = pytest.importorskip("transformers", reason="needs the export extra")
    size, unit = {"longest_edge": 96}, 8 * merge
    config = {"vision_config": {"patch_size": 8, "spatial_merge_size": merge}, "image_token_id": 9}
    settings = {"image_processor_type": "PixtralImageProcessor", "size": size, "resample": 3, **COLOURS}
    family = FAMILIES["pixtral"](config, settings)
    processor = transformers.PixtralImageProcessor(size=size, patch_size=8, **COLOURS)
    for shape in SIZES:
        image = noise(*shape)
        read, theirs = family.read(image), processor([[image]], patch_size={"height": unit, "width": unit})
        (want,) = theirs["pixel_values"]
        rows, columns = (pixels // unit for pixels in want.shape[-2:])
        assert read.grids == ((rows, columns + 1),), shape
        assert (read.num_tokens, read.text) == (rows * (columns + 1), "[IMG]")
        squares = read.pixels.reshape(rows, columns + 1, merge, merge, 3, 8, 8)
        assert not squares[:, -1].any()
        pixels = squares[:, :-1].transpose(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * unit, columns * unit)
        assert np.abs(pixels - want).max() < 1e-5, shape


def by_patch(read, merge, patch):
    """The patches of each part row by row, with colours last, as transformers orders their numbers."""
    for part, (rows, columns) in zip(read.parts, read.grids, strict=True):
        squares = part.reshape(rows, columns, merge, merge, 3, patch, patch)
        yield squares.transpose(0, 2, 1, 3, 5, 6, 4).reshape(rows * columns * merge**2, -1)


def test_gemma4_scales_an_image_to_as_many_tokens_as_it_may_have():
    pytest.importorskip("transformers", reason="needs the export extra")
    theirs = pytest.importorskip("transformers.models.gemma4.image_processing_pil_gemma4")
    settings = {"patch_size": 4, "pooling_kernel_size": 3, "max_soft_tokens": 70, "resample": 3}
    colours = {**COLOURS, "image_mean": [0.0] * 3, "image_std": [1.0] * 3}
    family = FAMILIES["gemma4"](
        {"image_token_id": 9}, {"image_processor_type": "Gemma4ImageProcessor", **settings, **colours}
    )
    processor = theirs.Gemma4ImageProcessorPil(**settings)
    for shape in SIZES:
        image = noise(*shape)
        read, want = family.read(image), processor([image])
        (pixels,) = by_patch(read, 3, 4)
        assert read.num_tokens == want["num_soft_tokens_per_image"][0], shape
        assert np.abs(pixels - want["pixel_values"][0][: len(pixels)]).max() < 1e-5, shape
        assert read.text == "<|image><|image|><image|>"


LFM2 = {
    "encoder_patch_size": 4,
    "downsample_factor": 2,
    "min_image_tokens": 4,
    "max_image_tokens": 16,
    "tile_size": 32,
    "min_tiles": 2,
    "max_tiles": 10,
    "max_pixels_tolerance": 2.0,
    "resample": 2,
}


def lfm2_family(**others):
    named = {"image_processor_type": "Lfm2VlImageProcessorFast"}
    return FAMILIES["lfm2_vl"]({"image_token_id": 9}, {**named, **LFM2, **COLOURS, **others})


def test_lfm2_splits_large_images_and_keeps_their_shape():
    family = lfm2_family()
    small, large = family.read(noise(30, 20)), family.read(noise(60, 90))
    assert (small.grids, small.text) == (((2, 4),), "<|image_start|><image><|image_end|>")
    assert large.grids == (*[(4, 4)] * 6, (4, 3)), "two columns of three tiles, and then the whole image"
    tiles = "".join(f"<|img_row_{row}_col_{column}|><image>" for row in (1, 2, 3) for column in (1, 2))
    assert large.text == f"<|image_start|>{tiles}<|img_thumbnail|><image><|image_end|>"
    assert [len(part) for part in large.parts] == [*[16] * 6, 12]
    assert len(lfm2_family(do_image_splitting=False).read(noise(60, 90)).grids) == 1


def test_lfm2_reads_the_pixels_of_transformers():
    """Its processor there scales with torchvision, whose last digit of a colour may be another one."""
    pytest.importorskip("torchvision", reason="transformers scales images of LFM2-VL with torchvision")
    transformers = pytest.importorskip("transformers", reason="needs the export extra")
    make = getattr(transformers, "Lfm2VlImageProcessorFast", None) or transformers.Lfm2VlImageProcessor
    settings = {name: value for name, value in LFM2.items() if name != "resample"}
    processor, family = make(**settings, **COLOURS), lfm2_family()
    for shape in SIZES:
        image = noise(*shape)
        read, want = family.read(image), processor([image], return_tensors="np", return_row_col_info=True)
        assert [tuple(grid // 2) for grid in want["spatial_shapes"]] == list(read.grids), shape
        for part, theirs in zip(by_patch(read, 2, 4), want["pixel_values"], strict=True):
            apart = np.abs(part - theirs[: len(part)])
            assert apart.max() < 1.01 / 255 / 0.3, shape
            assert (apart > 1e-5).mean() < 0.15, shape


def test_internvl_reads_one_tile_where_its_size_is_fixed():
    family = FAMILIES["internvl_chat"]({**INTERNVL, "dynamic_image_size": False}, COLOURS)
    assert family.read(noise(640, 111)).pixels.shape == (1, 3, 56, 56)


@pytest.mark.parametrize(
    ("kind", "config", "pixels", "words"),
    [
        ("gemma3", {}, {"do_pan_and_scan": True}, "do_pan_and_scan: true"),
        ("gemma3", {}, {"size": {"height": 42, "width": 42}}, "whole images of 56 × 56 pixels"),
        ("gemma3", {"text_config": {"sliding_window": 3}}, {}, "sliding_window 3: the 4 tokens of an image"),
        ("gemma3", {"image_token_index": None}, {}, "image_token_index is missing"),
        ("idefics3", {}, {"image_processor_type": "CLIPImageProcessor"}, "image_processor_type"),
        ("idefics3", {"vision_config": {**VISION, "image_size": 28}}, {}, "not of 56"),
        ("internvl_chat", {"force_image_size": 448}, {}, "reads 56 pixels"),
        ("internvl_chat", {"min_dynamic_patch": 13}, {}, "allow no image"),
        ("smolvlm", {}, {"size": {"longest_edge": 8192}}, "at most 4096"),
        ("smolvlm", {}, {"do_resize": False}, "do_resize: false"),
        ("pixtral", {}, {"image_processor_type": "CLIPImageProcessor"}, "known: PixtralImageProcessor"),
        ("gemma4", {}, {"image_processor_type": "CLIPImageProcessor"}, "known: Gemma4ImageProcessor"),
        ("lfm2_vl", {}, {"image_processor_type": "CLIPImageProcessor"}, "known: Lfm2VlImageProcessor"),
        (
            "lfm2_vl",
            {},
            {**LFM2, "image_processor_type": "Lfm2VlImageProcessor", "tile_size": 36},
            "tile_size 36",
        ),
    ],
)
def test_what_would_be_read_wrong_is_refused(kind, config, pixels, words):
    base = {"gemma3": GEMMA3, "internvl_chat": INTERNVL}.get(kind, IDEFICS3)
    settings = WHOLE if kind == "gemma3" else TILED
    with pytest.raises(ValueError, match=words):
        FAMILIES[kind]({**base, **config}, {**settings, **COLOURS, **pixels})


@pytest.mark.parametrize(
    ("kind", "config", "pixels", "fault"),
    [
        ("internvl_chat", INTERNVL | {"max_dynamic_patch": 10**6}, COLOURS, "up to 1000000 tiles"),
        ("gemma3", GEMMA3, {**WHOLE, **COLOURS, "image_std": [0.0] * 3}, "image_std"),
        ("gemma3", GEMMA3, {**WHOLE, **COLOURS, "image_mean": [float("nan")] * 3}, "image_mean"),
    ],
)
def test_settings_by_which_no_image_can_be_read_are_refused(kind, config, pixels, fault):
    with pytest.raises(ValueError, match=fault):
        FAMILIES[kind](config, pixels)
