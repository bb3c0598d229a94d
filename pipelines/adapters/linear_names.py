"""Names of linear layers, as checkpoints, exports and adapters call them → one, `layers.3.self_attn.q_proj`.

A model has two more at its ends: `embed_tokens` before its layers, and `lm_head` behind them.
"""

from __future__ import annotations

import re

_BEFORE = (
    r"(?:(?:base_model|model|language_model|text_model|transformer|decoder|encoder|gpt_neox|"
    r"\w*bert\w*|electra|mpnet|auto_model|_orig_mod|__module|module|\d+)\.)*"
)
"""What may stand before a layer of text; layers of images and sounds have other names before them."""
_NAMED = re.compile(_BEFORE + r"((?:layers|layer|h|blocks)\.\d+\.[\w.]*\w)")
_END = re.compile(
    _BEFORE
    + r"(?:(?P<embed_tokens>embed_tokens|embed_in|wte|word_embeddings)|(?P<lm_head>lm_head|embed_out))"
)

EMBEDDINGS, HEAD = "embed_tokens", "lm_head"
ENDS = (EMBEDDINGS, HEAD)
"""The linear layers at the ends of a model: one looks up a row for each token, one gives the logits."""

_WEIGHT = re.compile(r"(.+?)(?:\.MatMul)?\.weight.*")
_NODE = re.compile(r"(.+)/MatMul\w*")

PARTS = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""Last part of the name of a linear layer that some exports compute at once → those of which it consists."""


def linear_name(module: str) -> str | None:
    """The linear layer that a module's name says, None where it says none of a layer of text.

    Slashes count as dots; onnxruntime-genai's `attn` is what checkpoints call `self_attn`, and some call a
    `shared_expert` `shared_experts`.
    """
    dotted = module.replace("/", ".").strip(".")
    match = _NAMED.fullmatch(dotted)
    if match is None:
        return None
    name = re.sub(r"(?<=\d\.)attn\.(?=(?:q|k|v|qkv|o)_proj$)", "self_attn.", match[1])
    return name.replace(".shared_experts.", ".shared_expert.")


def end_name(module: str) -> str | None:
    """The end of the model that a module's name says, of `ENDS`; None for any other module."""
    found = _END.fullmatch(module)
    return None if found is None else found.lastgroup


def named_linear(weight: str, node: str) -> str | None:
    """The linear layer that the name of its weight says in an ONNX file, or else that of its node."""
    for pattern, text in ((_WEIGHT, weight), (_NODE, node)):
        found = pattern.fullmatch(text)
        if found is not None and (linear := linear_name(found[1])) is not None:
            return linear
    return None


def last_name(linear: str) -> str:
    """`q_proj` of `layers.3.self_attn.q_proj`."""
    return linear.rpartition(".")[2]


def parts_of(linear: str) -> tuple[str, ...]:
    """The names of the linear layers that one consists of; () where it is one."""
    before, dot, last = linear.rpartition(".")
    return tuple(f"{before}{dot}{part}" for part in PARTS.get(last, ()))


def is_wanted(linear: str, targets: frozenset[str]) -> bool:
    """Whether adapters of these targets (last parts of names; none: all) change a linear layer or a part of
    it.
    """
    names = {last_name(linear), *PARTS.get(last_name(linear), ())}
    return not targets or not targets.isdisjoint(names)
