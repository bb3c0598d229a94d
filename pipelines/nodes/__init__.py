"""The node types of graph files.  One class is one node type; it is imported when a graph first names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from types import MappingProxyType

from graphs.node import Node

NODE_TYPES = {
    "chat_template": "text.templates.chat_template:ChatTemplate",
    "embed_template": "text.templates.embed_template:EmbedTemplate",
    "pair_template": "text.templates.pair_template:PairTemplate",
    "add_prompt": "text.add_prompt:AddPrompt",
    "tokenize": "text.tokenizing.tokenize:Tokenize",
    "tokenize_pairs": "text.tokenizing.tokenize_pairs:TokenizePairs",
    "detokenize": "text.replies.detokenize:Detokenize",
    "parse_reply": "text.replies.parse_reply:ParseReply",
    "images": "images.images:ReadImages",
    "audio": "audio.sounds:ReadAudio",
    "log_mel": "audio.log_mel:LogMel",
    "texts": "pooling.texts:PlainTexts",
    "merge": "pooling.merge:Merge",
    "matryoshka": "pooling.matryoshka:Matryoshka",
    "label": "pooling.label:Label",
    "token_labels": "pooling.token_labels:TokenLabels",
    "rank": "pooling.rank:Rank",
    "mark_words": "entities.mark_words:MarkWords",
    "rerank_hits": "retrieval.rerank_hits:RerankHits",
    "speech_prompt": "speech.speech_prompt:SpeechPrompt",
    "segments": "speech.segments:Segments",
    "word_times": "speech.word_times:WordTimes",
    "phonemes": "voice.phonemes:Phonemes",
    "synthesizer": "voice.synthesizer:Synthesizer",
    "waveform": "voice.waveform:Waveform",
    "graph": "graph_node:GraphNode",
    "ask": "composing.ask:Ask",
    "find": "composing.find:Find",
    "classify": "composing.classify:Classify",
    "cite": "composing.cite:Cite",
    "decide": "composing.decide:Decide",
    "choose": "composing.choose:Choose",
    "guard": "composing.guard:GuardNode",
    "cascade": "composing.cascade:Cascade",
    "join": "composing.join:Join",
    "transcribe": "composing.transcribe:Transcribe",
    "speak": "composing.speak:Speak",
    "decoder_start": "generation.decoder_start:DecoderStart",
    "scheduler": "generation.scheduler:Scheduler",
    "model": "generation.body.model:Model",
    "lookup": "generation.body.lookup:Lookup",
    "draft": "generation.body.draft:Draft",
    "grammar": "generation.body.grammar:Grammar",
    "sampler": "generation.body.sampler:Sampler",
    "batcher": "pooling.batcher:Batcher",
    "infer": "tensors.infer:Infer",
    "find_entities": "entities.find_entities:FindEntities",
    "search": "retrieval.search:PassageSearch",
    "index": "retrieval.body.index:Index",
    "tensor_model": "tensors.body.tensor_model:TensorModel",
    "encoder": "pooling.body.encoder:Encoder",
    "pool": "pooling.body.pool:Pool",
    "dense": "pooling.body.dense:Dense",
    "sparse": "pooling.body.sparse:Sparse",
    "sparse_tokens": "pooling.body.sparse_tokens:SparseTokens",
    "colbert": "pooling.body.colbert:Colbert",
    "normalize": "pooling.body.activation:Normalize",
    "sigmoid": "pooling.body.activation:Sigmoid",
    "softmax": "pooling.body.activation:Softmax",
}
"""Node type in a graph file → module and class in this folder."""
NODES_FILE = "nodes.py"
"""The file of a model's folder with node types of its own."""

OTHER_WORDS = {
    **dict.fromkeys(("chat", "llm", "generate", "translate", "rewrite", "prompt"), "ask"),
    **dict.fromkeys(("retrieve", "retriever", "retrieval"), "find"),
    **dict.fromkeys(("rerank", "reranker"), "rerank_hits"),
    **dict.fromkeys(("route", "router", "switch"), "choose"),
    **dict.fromkeys(("sounds", "sound"), "audio"),
}
"""Names that other programs give such steps → the node type that an error text offers."""
BETWEEN = {
    ("Deferred[Hits]", "GenerationInput"): "cite",
    ("Stream[ReplyUpdate]", "GenerationInput"): "ask",
    ("Stream[TextUpdate]", "GenerationInput"): "ask",
    ("Deferred[Classes]", "GenerationInput"): "ask",
}
"""Types of a value and of an input → the node type whose lines make one from the other."""


class Vocabulary(Mapping[str, type[Node]]):
    """NODE_TYPES with the classes themselves, each imported on first use, and a model's own."""

    meant = MappingProxyType(OTHER_WORDS)
    """Read by the checker of graphs, for the text about an unknown type."""
    between = MappingProxyType(BETWEEN)
    """Read by the checker of graphs, for the text about an input that a value does not fit."""

    def __init__(self, own: Mapping[str, type[Node]] | None = None) -> None:
        self._own = own or {}

    def __getitem__(self, name: str) -> type[Node]:
        if name in self._own:
            return self._own[name]
        module, _, cls = NODE_TYPES[name].partition(":")
        node_type: type[Node] = getattr(import_module(f"{__name__}.{module}"), cls)
        return node_type

    def __contains__(self, name: object) -> bool:
        """Imports nothing."""
        return name in NODE_TYPES or name in self._own

    def __iter__(self) -> Iterator[str]:
        return chain(NODE_TYPES, self._own)

    def __len__(self) -> int:
        return len(NODE_TYPES) + len(self._own)


VOCABULARY = Vocabulary()
