"""The models that are checked and measured: shapes by name, and random weights for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Shape:
    """The dimensions of a Qwen3 decoder; sizes in elements, `context` in tokens.

    With `experts` it is a mixture: each token uses `used` of them in a layer, each of `intermediate` width.
    """

    vocab: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    context: int
    tied: bool
    experts: int = 0
    used: int = 0

    def config(self) -> Any:
        """The shape as a config of transformers."""
        from transformers import Qwen3Config, Qwen3MoeConfig

        mixture = {
            "moe_intermediate_size": self.intermediate,
            "num_experts": self.experts,
            "num_experts_per_tok": self.used,
            "norm_topk_prob": True,
        }
        return (Qwen3MoeConfig if self.experts else Qwen3Config)(
            **(mixture if self.experts else {}),
            vocab_size=self.vocab,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_size,
            max_position_embeddings=self.context,
            tie_word_embeddings=self.tied,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )

    @property
    def matrix_elements(self) -> int:
        """Weights that every step reads: all but the embedding table, of which it reads a row per token."""
        attention = self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)
        mlp = 3 * self.hidden * self.intermediate
        return self.layers * (attention + mlp) + self.vocab * self.hidden

    def kv_elements(self, num_tokens: int) -> int:
        """Keys and values of `num_tokens` tokens over all layers."""
        return num_tokens * self.layers * 2 * self.kv_heads * self.head_size

    def attention_flops(self, num_tokens: int) -> int:
        """Operations of causal attention over a prompt: scores and weighted values, half of the square."""
        return 2 * self.layers * self.heads * self.head_size * num_tokens**2


SHAPES = {
    "tiny": Shape(512, 64, 96, 3, 4, 2, 16, 512, False),
    "small": Shape(32_000, 1024, 3072, 8, 16, 8, 128, 8192, False),
    "mixture": Shape(32_000, 1024, 512, 4, 16, 8, 128, 8192, False, experts=32, used=4),
    "qwen3-0.6b": Shape(151_936, 1024, 3072, 28, 16, 8, 128, 40_960, True),
    "qwen3-8b": Shape(151_936, 4096, 12_288, 36, 32, 8, 128, 40_960, False),
}
"""`tiny` is for tests without a GPU; `small`, `mixture` are compared with transformers, others measured."""
WITH_ADAPTERS = ".adapters"
"""End of the name of a graph whose linear layers have room for adapters, with the weights of that without."""


def random_model(shape: Shape, device: str, dtype: str, seed: int = 0, attention: str = "sdpa") -> Any:
    """A transformers model with random weights, norms included, created on its device."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            shape.config(), dtype=getattr(torch, dtype), attn_implementation=attention
        )
        for parameter in model.parameters():
            if (
                parameter.dim() == 1
            ):  # norms are all ones in a new model, so that they would be indistinguishable
                torch.nn.init.uniform_(parameter, 0.5, 1.5)
    model.generation_config.eos_token_id = None
    return model.to(device).eval()


def random_prompts(shape: Shape, lengths: list[int], seed: int) -> list[list[int]]:
    import numpy as np

    rng = np.random.default_rng(seed)
    return [rng.integers(0, shape.vocab, length).tolist() for length in lengths]
