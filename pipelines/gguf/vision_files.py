"""The files that say how images are read, in the form of transformers, from an mmproj file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.gguf.vision_facts import VisionFacts

Fields = dict[str, Any]
IdOf = Callable[[str], int]
"""The id of a token.  Raises `GgufError`."""
RESAMPLE = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3}
QWEN_PIXELS = {"qwen3_vl": (65536, 16777216)}, (3136, 12845056)
"""Least and most pixels of an image, as published models have them: by family, and of others."""


def config_of(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    """config.json and preprocessor_config.json.  Raises `GgufError`."""
    vision = {"image_size": facts.side, "patch_size": facts.patch}
    config: Fields = {"model_type": facts.kind.family, "vision_config": vision}
    pixels: Fields = {"rescale_factor": 1 / 255, "image_mean": facts.mean, "image_std": facts.std}
    further = FILES[facts.kind.family](facts, id_of)
    config |= further[0] | {"vision_config": vision | further[0].get("vision_config", {})}
    return config, pixels | further[1]


def _qwen(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    known, others = QWEN_PIXELS
    least, most = known.get(facts.kind.family, others)
    sizes = {"patch_size": facts.patch, "temporal_patch_size": 2}
    vision = {
        **sizes,
        "spatial_merge_size": facts.merge,
        "window_size": facts.window,
        "num_position_embeddings": facts.along**2 if facts.kind.family == "qwen3_vl" else 1,
    }
    bounds = {"min_pixels": facts.least or least, "max_pixels": facts.most or most}
    pixels = {**sizes, "merge_size": facts.merge, **bounds}
    return {"image_token_id": id_of("<|image_pad|>"), "vision_config": vision}, pixels


def _pixtral(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    vision = {
        "temporal_patch_size": 1,
        "spatial_merge_size": facts.merge,
        "ends_rows": True,
        "column_shift": 0.5,
    }
    pixels = {
        "image_processor_type": "PixtralImageProcessor",
        "size": {"longest_edge": facts.longest or facts.side},
        "resample": RESAMPLE["bicubic"],
    }
    return {"image_token_id": id_of("[IMG]"), "vision_config": vision}, pixels


def _gemma3(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    config = {"mm_tokens_per_image": facts.tokens, "image_token_id": id_of("<image_soft_token>")}
    size = {"height": facts.side, "width": facts.side}
    processor = {"image_processor_type": "Gemma3ImageProcessor"}
    return config, {**processor, "size": size, "resample": RESAMPLE["bilinear"]}


def _gemma4(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    vision = {
        "temporal_patch_size": 1,
        "spatial_merge_size": facts.merge,
        "rope_theta": facts.kind.base,
        "axis_rows": facts.axis_rows,
        "max_tokens": facts.tokens,
    }
    pixels = {
        "image_processor_type": "Gemma4ImageProcessor",
        "patch_size": facts.patch,
        "pooling_kernel_size": facts.merge,
        "max_soft_tokens": facts.tokens,
        "resample": RESAMPLE["bicubic"],
    }
    return {"image_token_id": id_of("<|image|>"), "vision_config": vision}, pixels


def _lfm2(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    vision = {"temporal_patch_size": 1, "spatial_merge_size": facts.merge, "resized_table": facts.along}
    pixels = {
        "image_processor_type": "Lfm2VlImageProcessor",
        "encoder_patch_size": facts.patch,
        "downsample_factor": facts.merge,
        "resample": RESAMPLE["bilinear"],
        **_tokens_of_lfm2(facts),
    }
    return {"image_token_id": id_of("<image>"), "vision_config": vision}, pixels


def _tokens_of_lfm2(facts: VisionFacts) -> Fields:
    """How large images are, and how many tiles they have: as published models have it."""
    token = (facts.patch * facts.merge) ** 2
    return {
        "min_image_tokens": facts.least // token or 64,
        "max_image_tokens": facts.most // token or 256,
        "tile_size": facts.longest or 512,
        "min_tiles": 2,
        "max_tiles": 10,
        "max_pixels_tolerance": 2.0,
    }


def _idefics3(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    pixels = {
        "size": {"longest_edge": facts.longest or facts.side},
        "max_image_size": {"longest_edge": facts.side},
        "resample": RESAMPLE["lanczos"],
    }
    return {"scale_factor": facts.merge, "image_token_id": id_of("<image>")}, pixels


def _internvl(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    fewest, most = facts.tiles
    config = {
        "img_context_token_id": id_of("<IMG_CONTEXT>"),
        "downsample_ratio": 1 / facts.merge,
        "dynamic_image_size": True,
        "use_thumbnail": True,
        "min_dynamic_patch": fewest,
        "max_dynamic_patch": most,
    }
    return config, {}


def _llava(facts: VisionFacts, id_of: IdOf) -> tuple[Fields, Fields]:
    config = {
        "image_token_id": id_of("<image>"),
        "vision_feature_select_strategy": "default",
        "vision_config": {"model_type": "clip_vision_model"},
    }
    return config, {
        "size": {"shortest_edge": facts.side},
        "crop_size": {"height": facts.side, "width": facts.side},
        "resample": RESAMPLE["bicubic"],
    }


FILES: dict[str, Callable[[VisionFacts, IdOf], tuple[Fields, Fields]]] = {
    "qwen2_vl": _qwen,
    "qwen2_5_vl": _qwen,
    "qwen3_vl": _qwen,
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "lfm2_vl": _lfm2,
    "idefics3": _idefics3,
    "internvl_chat": _internvl,
    "llava": _llava,
    "pixtral": _pixtral,
}
"""Family → what its files have beside the sizes and colours that all have."""
