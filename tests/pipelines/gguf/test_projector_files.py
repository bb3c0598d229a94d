"""mmproj files: which one belongs to a model, and what is refused by its name."""

from __future__ import annotations

from types import SimpleNamespace

import gguf
import numpy as np
import pytest
from gguf_files import write_llama_like

from graphs.errors import GraphError
from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.projector_files import find_projector
from pipelines.gguf.vision_facts import TABLE, read_vision
from pipelines.repository.model_folders import scan

CLIP = "clip"


@pytest.mark.parametrize(
    ("names", "model", "wanted"),
    [
        (["a-Q4_K_M.gguf", "mmproj-F16.gguf"], "a-Q4_K_M.gguf", "mmproj-F16.gguf"),
        (["a-Q4_K_M.gguf"], "a-Q4_K_M.gguf", None),
        (["a-Q8_0.gguf", "mmproj-a-f16.gguf", "mmproj-a-Q8_0.gguf"], "a-Q8_0.gguf", "mmproj-a-Q8_0.gguf"),
        (["a-BF16.gguf", "mmproj-F32.gguf", "mmproj-BF16.gguf"], "a-BF16.gguf", "mmproj-BF16.gguf"),
        (["a.Q4_K_M.gguf", "a.Q8_0.gguf", "a.mmproj-f16.gguf"], "a.Q8_0.gguf", "a.mmproj-f16.gguf"),
        (["a-Q4_0.gguf", "b-Q4_0.gguf", "mmproj-a-f16.gguf"], "a-Q4_0.gguf", "mmproj-a-f16.gguf"),
        (["a-Q4_0.gguf", "b-Q4_0.gguf", "mmproj-a-f16.gguf"], "b-Q4_0.gguf", None),
        (["a-Q4_0.gguf", "b-Q4_0.gguf", "mmproj-model-f16.gguf"], "a-Q4_0.gguf", None),
        (
            ["a-Q4_0-00001-of-00002.gguf", "a-Q4_0-00002-of-00002.gguf", "mmproj-a-f16.gguf"],
            "a-Q4_0-00001-of-00002.gguf",
            "mmproj-a-f16.gguf",
        ),
    ],
)
def test_it_is_the_one_of_the_model_with_the_nearest_bits(tmp_path, names, model, wanted):
    for name in names:
        (tmp_path / name).touch()
    found = find_projector(tmp_path / model)
    assert (found and found.name) == wanted


def write_projector(path, architecture=CLIP, kind="qwen3vl_merger", **flags):
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in {"has_vision_encoder": True, **flags}.items():
        writer.add_bool(f"clip.{name}", value)
    if kind:
        writer.add_string("clip.projector_type", kind)
    writer.add_tensor("v.post_ln.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"kind": "minicpmv"}, "has a projector of type minicpmv; those of type qwen2vl_merger, "),
        (
            {"kind": "ultravox", "has_vision_encoder": False, "has_audio_encoder": True},
            "encoder of sound alone",
        ),
        ({"architecture": "llama"}, "is of architecture llama, not clip: no mmproj file"),
        ({"kind": None}, r"has a projector of type \(none\)"),
        ({}, "has no clip.vision.embedding_length"),
    ],
)
def test_others_are_refused_by_name(tmp_path, said, fault):
    folder = tmp_path / "models" / "a"
    folder.mkdir(parents=True)
    write_llama_like(folder / "a-F32.gguf")
    write_projector(folder / "mmproj-F32.gguf", **said)
    (model,) = scan(tmp_path / "models", tmp_path / "cache")
    with pytest.raises(GraphError, match=f"mmproj-F32.gguf .*{fault}"):
        model.opened()


def test_a_file_that_comes_changes_the_model(tmp_path):
    folder = tmp_path / "models" / "a"
    folder.mkdir(parents=True)
    write_llama_like(folder / "a-F32.gguf")
    (before,) = scan(tmp_path / "models")
    (folder / "mmproj-F32.gguf").touch()
    (after,) = scan(tmp_path / "models")
    assert before.fingerprint != after.fingerprint
    with pytest.raises(GraphError, match=r"mmproj-F32.gguf is too short for a GGUF file"):
        after.opened()


def fields_of(kind):
    vision = {"embedding_length": 32, "attention.head_count": 2, "block_count": 1, "feed_forward_length": 32}
    vision |= {"attention.layer_norm_epsilon": 1e-6, "image_size": 64, "patch_size": 16, "projection_dim": 32}
    vision |= {name: np.full(3, 0.5, np.float32) for name in ("image_mean", "image_std")}
    fields = {f"clip.vision.{name}": value for name, value in vision.items()}
    return fields | {
        "general.architecture": CLIP,
        "clip.projector_type": kind,
        "clip.has_vision_encoder": True,
    }


def test_an_image_of_more_patches_than_there_are_positions_is_refused():
    with pytest.raises(GgufError, match="has 0 positions on each axis; an image may have more patches"):
        read_vision(Metadata(fields_of("gemma4v")), {})


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("gemma4uv", {"attention.head_count": 0}, "has 1 layers; models of type gemma4uv have none"),
        ("gemma4v", {"attention.head_count": 16}, "has heads of 2 numbers"),
    ],
)
def test_layers_that_cannot_be_are_refused(kind, fields, words):
    others = {f"clip.vision.{name}": value for name, value in fields.items()}
    with pytest.raises(GgufError, match=words):
        read_vision(Metadata(fields_of(kind) | others), {TABLE: SimpleNamespace(rows=2000)})


@pytest.mark.parametrize("merge", [5, 2**31 - 1])
def test_a_token_of_more_patches_than_an_image_has_is_refused(merge):
    """The largest number left the arithmetic of the graph's sizes, and the file was not named."""
    fields = fields_of("qwen3vl_merger") | {"clip.vision.spatial_merge_size": merge}
    with pytest.raises(GgufError, match=f"has 4 patches along an image, of which {merge} are one token"):
        read_vision(Metadata(fields), {})


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("image_min_pixels", 1 << 31, "image_min_pixels is 2147483648, not within 0 and 4194304"),
        ("image_max_pixels", 7, "image_max_pixels is 7, less than the 1024 of a token"),
        ("preproc_image_size", 1 << 20, "preproc_image_size is 1048576, not within 0 and 4096"),
        ("image_mean", np.full(3, np.nan, np.float32), "image_mean is .*, by which no colour is scaled"),
        ("image_std", np.zeros(3, np.float32), "image_std is .*, by which no colour is scaled"),
    ],
)
def test_numbers_by_which_no_image_can_be_scaled_are_refused(key, value, fault):
    """An image took all memory, was empty, or was no number."""
    fields = fields_of("lfm2") | {f"clip.vision.{key}": value}
    with pytest.raises(GgufError, match=fault):
        read_vision(Metadata(fields), {})
