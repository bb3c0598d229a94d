"""Pixels equal those of transformers' image processors, for every kind of file and size."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the extra vision")

from PIL import Image

from pipelines.nodes.images.clip_pixels import clip_pixels, read_pixel_settings
from pipelines.nodes.images.decoding import ImageLimits, decode_image
from pipelines.nodes.images.qwen_vl import read_qwen_vl

LIMITS = ImageLimits(20_000_000, 40_000_000)
CLIP = {
    "image_processor_type": "CLIPImageProcessor",
    "do_resize": True,
    "do_center_crop": True,
    "do_rescale": True,
    "do_normalize": True,
    "size": {"shortest_edge": 28},
    "crop_size": {"height": 28, "width": 28},
    "resample": 3,
    "rescale_factor": 1 / 255,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
SIGLIP = {
    **{name: value for name, value in CLIP.items() if "crop" not in name},
    "image_processor_type": "SiglipImageProcessor",
    "size": {"height": 42, "width": 42},
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


def noise(width, height, channels, seed=0):
    values = np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)
    return Image.fromarray(values[..., 0] if channels == 1 else values)


def file_of(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return file_of(noise(50, 31, 3), "JPEG", exif=exif, quality=90)


def see_through_palette():
    image = noise(33, 40, 3).quantize(16)
    return file_of(image, "PNG", transparency=3)


def on_white(file):
    """As transformers loads an image, which drops transparency: vLLM puts it on white first."""
    from transformers.image_utils import load_image

    image = Image.open(io.BytesIO(file))
    if not image.has_transparency_data:
        return load_image(image)
    white = Image.new("RGB", image.size, (255, 255, 255))
    white.paste(image.convert("RGBA"), mask=image.convert("RGBA").split()[3])
    return load_image(white)


FILES = {
    "odd": file_of(noise(31, 57, 3)),
    "smaller": file_of(noise(5, 9, 3)),
    "wide": file_of(noise(301, 28, 3)),
    "grey": file_of(noise(40, 33, 1)),
    "grey and alpha": file_of(noise(40, 33, 2)),
    "alpha": file_of(noise(40, 33, 4)),
    "palette": file_of(noise(33, 40, 3).quantize(16)),
    "palette with transparency": see_through_palette(),
    "16 bits": file_of(Image.fromarray(np.arange(40 * 33, dtype=np.uint16).reshape(33, 40) * 40)),
    "cmyk": file_of(noise(40, 33, 4).convert("RGB").convert("CMYK"), "JPEG"),
    "webp": file_of(noise(40, 33, 4), "WEBP", lossless=True),
    "gif": file_of(noise(40, 33, 3).quantize(8), "GIF", save_all=True, append_images=[noise(40, 33, 3, 1)]),
    **{f"turned {orientation}": turned(orientation) for orientation in (3, 6, 8)},
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("fields", [CLIP, SIGLIP], ids=["clip", "siglip"])
def test_pixels_equal_those_of_transformers(name, fields):
    transformers = pytest.importorskip("transformers", reason="needs the export extra")
    settings = {key: value for key, value in fields.items() if key != "image_processor_type"}
    processor = getattr(transformers, fields["image_processor_type"])(**settings)
    opened = on_white(FILES[name])
    want = np.asarray(processor(opened)["pixel_values"][0], np.float32)
    found = clip_pixels(decode_image(FILES[name], LIMITS, "x"), read_pixel_settings(fields))
    assert found.dtype == np.float32
    assert found.shape == want.shape
    assert np.abs(found - want).max() < 1e-5


def test_what_is_transparent_is_white():
    drawn = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    drawn.putpixel((0, 0), (0, 0, 0, 255))
    pixels = np.asarray(decode_image(file_of(drawn), LIMITS, "x"))
    assert pixels[0, 0].tolist() == [0, 0, 0]
    assert (pixels.reshape(-1, 3)[1:] == 255).all()


QWEN = {
    **{name: value for name, value in CLIP.items() if "crop" not in name},
    "image_processor_type": "Qwen2VLImageProcessor",
    "size": None,
    "min_pixels": 4 * 28**2,
    "max_pixels": 16 * 28**2,
}
QWEN_CONFIG = {"image_token_id": 9, "vision_config": {}}
SIZES = {f"{width} by {height}": file_of(noise(width, height, 3)) for width, height in ((1, 150), (300, 299))}


@pytest.mark.parametrize("name", [*FILES, *SIZES])
def test_patches_and_grids_equal_those_of_transformers(name):
    transformers = pytest.importorskip("transformers", reason="needs the export extra")
    settings = {key: value for key, value in QWEN.items() if key not in ("image_processor_type", "size")}
    file = {**FILES, **SIZES}[name]
    processor = transformers.Qwen2VLImageProcessor(**settings)
    want = processor([on_white(file)], return_tensors="np")
    patches = read_qwen_vl(QWEN_CONFIG, QWEN).read(decode_image(file, LIMITS, "x"))
    assert [[1, *(2 * side for side in patches.grids[0])]] == want["image_grid_thw"].tolist()
    assert patches.pixels.dtype == np.float32
    assert len(patches.pixels) == patches.num_tokens
    assert np.abs(patches.pixels.reshape(want["pixel_values"].shape) - want["pixel_values"]).max() < 1e-5


def test_larger_images_are_scaled_down_to_what_the_graph_allows():
    family, image = read_qwen_vl(QWEN_CONFIG, QWEN), noise(300, 299, 3)
    assert family.read(image).num_tokens == 12
    assert family.at_most(9).read(image).num_tokens == 6
    assert family.at_most(100).read(image).num_tokens == 12


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"image_processor_type": "CLIPImageProcessor"}, "image_processor_type CLIPImageProcessor"),
        ({"do_rescale": False}, "do_rescale"),
        ({"patch_size": 16}, "not those of vision_config"),
        ({"merge_size": 4}, "not those of vision_config"),
    ],
)
def test_settings_of_other_patches_are_refused(changed, words):
    with pytest.raises(ValueError, match=words):
        read_qwen_vl({**QWEN_CONFIG, "vision_config": {"spatial_merge_size": 2}}, {**QWEN, **changed})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"image_processor_type": "Qwen2VLImageProcessor"}, "image_processor_type Qwen2VLImageProcessor"),
        ({"do_pad": True}, "do_pad"),
        ({"do_normalize": False}, "do_normalize"),
        ({"crop_size": {"height": 28, "width": 30}}, "no square"),
        ({"crop_size": {"height": 30, "width": 30}}, "not within"),
        ({"image_mean": [0.5]}, "three numbers"),
    ],
)
def test_settings_of_other_pixels_are_refused(changed, words):
    with pytest.raises(ValueError, match=words):
        read_pixel_settings({**CLIP, **changed})
