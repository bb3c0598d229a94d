"""What GGUF files of hybrid decoders say of their layers."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.gguf.decoder_facts import read_facts
from pipelines.gguf.errors import GgufError
from pipelines.gguf.metadata import Metadata

COMMON = {
    "block_count": 4,
    "embedding_length": 64,
    "context_length": 128,
    "attention.head_count": 4,
    "attention.layer_norm_rms_epsilon": 1e-6,
}
CONVS = {"attention.head_count_kv": np.array([0, 2, 0, 2]), "shortconv.l_cache": 3}
NET = {
    "attention.head_count_kv": 2,
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 64,
    "ssm.state_size": 8,
    "ssm.time_step_rank": 8,
    "ssm.group_count": 2,
}


def facts_of(architecture, said):
    fields = {f"{architecture}.{name}": value for name, value in (COMMON | said).items()}
    return read_facts(Metadata({"general.architecture": architecture} | fields))


def test_layers_without_key_heads_are_recurrent():
    facts = facts_of("lfm2", CONVS)
    assert [facts.is_recurrent(layer) for layer in range(4)] == [True, False, True, False]
    assert [facts.attention_number(layer) for layer in (1, 3)] == [0, 1]
    assert facts.head.kv_heads == 2


@pytest.mark.parametrize(
    ("said", "recurrent"),
    [
        ({}, [True, True, True, False]),
        ({"full_attention_interval": 2}, [True, False, True, False]),
        ({"attention.recurrent_layers": np.array([0, 1, 1, 0], np.uint8)}, [False, True, True, False]),
    ],
)
def test_delta_nets_are_where_the_file_says_it(said, recurrent):
    facts = facts_of("qwen35", NET | said)
    assert list(facts.recurrence.layers) == recurrent


def test_layers_of_nemotron_have_one_part():
    sizes = {
        "attention.head_count_kv": np.array([0, 2, 0, 2]),
        "feed_forward_length": np.array([0, 0, 64, 0]),
    }
    facts = facts_of("nemotron_h", NET | sizes)
    assert [facts.is_recurrent(layer) for layer in range(4)] == [True, False, False, False]
    assert facts.feeds == (False, False, True, False)
    assert [facts.attention_number(layer) for layer in (1, 3)] == [0, 1]
    assert not any(facts.has_rope(layer) for layer in range(4))


def test_heads_of_gemma4_differ_where_a_layer_has_a_window():
    said = {
        "attention.key_length": 32,
        "attention.key_length_swa": 16,
        "attention.head_count_kv": np.array([2, 1, 2, 1]),
        "attention.sliding_window": 8,
        "attention.sliding_window_pattern": np.array([True, False, True, False]),
        "attention.shared_kv_layers": 2,
    }
    facts = facts_of("gemma4", said)
    assert [facts.head_of(layer) for layer in (0, 1)] == [(2, 16, 16), (1, 32, 32)]
    assert [facts.keys_of(layer) for layer in range(4)] == [0, 1, 0, 1]


def test_tiled_heads_are_those_of_one_key_head_far_apart():
    assert facts_of("qwen35", NET).recurrence.tiled_heads.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert facts_of("qwen3next", NET).recurrence.tiled_heads.tolist() == list(range(8))


@pytest.mark.parametrize(
    ("architecture", "said", "fault"),
    [
        ("lfm2", CONVS | {"attention.head_count_kv": np.zeros(4, int)}, "no layer of attention"),
        ("lfm2", CONVS | {"attention.head_count_kv": np.array([0, 2, 1, 2])}, "layers of 1, 2 key heads"),
        ("qwen35", NET | {"ssm.group_count": 3}, "8 heads in 3 groups"),
        ("qwen35", NET | {"ssm.inner_size": 60}, "a state of 60 numbers"),
        ("qwen35", NET | {"full_attention_interval": 8}, "no layer of attention"),
    ],
)
def test_layers_that_cannot_be_are_refused(architecture, said, fault):
    with pytest.raises(GgufError, match=fault):
        facts_of(architecture, said)
