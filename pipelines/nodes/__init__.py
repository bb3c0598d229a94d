"""The vocabulary of graph files: one class is one node type.  A class is imported when a graph names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from graphs.node import Node

NODE_TYPES = {
    "chat_template": "chat_template:ChatTemplate",
    "add_prompt": "add_prompt:AddPrompt",
    "tokenize": "tokenize:Tokenize",
    "tokenize_pairs": "tokenize_pairs:TokenizePairs",
    "detokenize": "detokenize:Detokenize",
    "parse_reply": "reply:ParseReply",
    "matryoshka": "matryoshka:Matryoshka",
    "label": "label:Label",
    "rank": "rank:Rank",
    "graph": "compose:GraphNode",
    "scheduler": "scheduler:Scheduler",
    "model": "model:Model",
    "lookup": "lookup:Lookup",
    "draft": "draft:Draft",
    "grammar": "grammar:Grammar",
    "sampler": "sampler:Sampler",
    "batcher": "batcher:Batcher",
    "infer": "infer:Infer",
    "tensor_model": "tensor_model:TensorModel",
    "encoder": "encoder:Encoder",
    "pool": "pool:Pool",
    "dense": "dense:Dense",
    "normalize": "normalize:Normalize",
    "sigmoid": "normalize:Sigmoid",
    "softmax": "normalize:Softmax",
}
"""Name in a graph file → module and class in this folder."""


class Vocabulary(Mapping[str, type[Node]]):
    """NODE_TYPES with the classes themselves, each imported on first use."""

    def __getitem__(self, name: str) -> type[Node]:
        module, _, cls = NODE_TYPES[name].partition(":")
        node_type: type[Node] = getattr(import_module(f"{__name__}.{module}"), cls)
        return node_type

    def __iter__(self) -> Iterator[str]:
        return iter(NODE_TYPES)

    def __len__(self) -> int:
        return len(NODE_TYPES)


VOCABULARY = Vocabulary()
