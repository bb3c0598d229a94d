"""Writes the decoder of a GGUF file in Braid's ONNX format, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import onnx_ir as ir

from pipelines.gguf.attention_heads import HEADS_FIRST, AttentionHeads, CosSin
from pipelines.gguf.decoder_facts import DecoderFacts
from pipelines.gguf.errors import GgufError
from pipelines.gguf.feed_forward import FeedForward
from pipelines.gguf.image_embeddings import ImageEmbeddings
from pipelines.gguf.latent_attention import LatentAttention
from pipelines.gguf.layer_embeddings import LayerEmbeddings
from pipelines.gguf.linear_layers import F32, LinearLayers
from pipelines.gguf.metadata import Metadata
from pipelines.gguf.norms import Norms
from pipelines.gguf.recurrent import RecurrentLayers
from pipelines.gguf.rotary import ORIGINAL, Rotary, read_local_rotary, read_rotary
from pipelines.gguf.vision_inputs import VisionInputs
from pipelines.onnx_format.decoder_format import (
    ATTENTION,
    DOMAIN,
    IN_ORDER,
    INPUT_IDS,
    LOGITS,
    LOGITS_INDICES,
    POSITION_IDS,
)
from pipelines.onnx_format.onnx_writer import OnnxWriter

NORM_OF_EMBEDDINGS = "token_embd_norm.weight"
LAYER_SCALE = "layer_output_scale.weight"
EMBEDDING, HEAD, HEAD_BIAS = "token_embd.weight", "output.weight", "output.bias"
AFTER_ATTENTION, AFTER_FEED = "post_attention_norm", "post_ffw_norm"
INT64 = ir.DataType.INT64


class Decoder:
    """Writes the graph of a decoder whose tokens lie in one row, one step of all sequences."""

    def __init__(
        self,
        facts: DecoderFacts,
        metadata: Metadata,
        linears: LinearLayers,
        writer: OnnxWriter,
        vision_inputs: VisionInputs | None = None,
    ) -> None:
        self._facts, self._linears, self._writer, self._op = facts, linears, writer, writer.op
        self._metadata = metadata
        self._norms = Norms(facts, linears, writer)
        self._heads = AttentionHeads(facts, self._norms, linears, writer)
        self._feed_forward = FeedForward(facts, self._norms, linears, writer)
        self._layer_embeddings = LayerEmbeddings(facts, self._norms, linears, writer)
        if recurrence := facts.recurrence:
            self._recurrent = RecurrentLayers(recurrence, facts.width, facts.epsilon, linears, writer)
        if latent := facts.latent:
            self._latent = LatentAttention(latent, facts.heads, facts.width, facts.epsilon, linears, writer)
        self._given = ImageEmbeddings(facts, metadata, vision_inputs, writer)
        self._table = linears.tensor(EMBEDDING, rows=None, width=facts.width)

    def write(self) -> int:
        facts, op = self._facts, self._op
        ids = ir.val(INPUT_IDS, INT64, [1, "num_tokens"])
        positions = ir.val(POSITION_IDS, INT64, [1, "num_tokens"])
        rows = ir.val(LOGITS_INDICES, INT64, ["num_logits"])
        state = self._states(ids, positions)
        taken = self._norms.write(
            op("Gather", state, rows, axis=1), f"{facts.kind.output_norm}.weight", facts.width
        )
        logits = op("Reshape", self._logits(taken), self._writer.ints(-1, self._table.rows))
        self._refuse_unused()
        logits.name, logits.dtype = LOGITS, F32
        logits.shape = ir.Shape(["num_logits", self._table.rows])
        self._writer.save([ids, positions, rows, *self._given.inputs], [logits], facts.name)
        return self._table.rows

    def _states(self, ids: ir.Value, positions: ir.Value) -> ir.Value:
        """What the last layer leaves of the tokens, [1, tokens, width]."""
        facts, op = self._facts, self._op
        state = self._linears.look_up(ids, self._table)
        if facts.kind.scaled_embedding:
            state = op("Mul", state, self._writer.number(math.sqrt(facts.width)))
        state = self._scaled(state, "embeddings")
        if facts.kind.norms_embeddings:
            state = self._norms.write(state, NORM_OF_EMBEDDINGS, facts.width)
        state = self._given.place(state)
        state.dtype, state.shape = F32, ir.Shape([1, "num_tokens", facts.width])
        rotary = read_rotary(self._metadata, facts, self._linears)
        cos_sin = local = self._cos_sin(positions, rotary, "rope.pace")
        if facts.kind.is_locally_plain and any(facts.windows):
            local = self._cos_sin(positions, read_local_rotary(self._metadata, facts), "rope.local")
        self._query_scale = self._growth(positions)
        angles = [cos_sin if facts.window_of(layer) < 0 else local for layer in range(facts.layers)]
        return self._layers(ids, state, angles)

    def _layers(self, ids: ir.Value, state: ir.Value, angles: Sequence[CosSin]) -> ir.Value:
        """What the layers make of the embeddings `state` of `ids`; each has its own angles."""
        facts, op = self._facts, self._op
        own = self._layer_embeddings.read(self._given.words(ids), state) if facts.layer_size else ()
        for layer, cos_sin in enumerate(angles):
            state = self._layer(layer, state, cos_sin)
            if own:
                added = self._layer_embeddings.added(f"blk.{layer}.", state, own[layer])
                state = op("Add", state, added)
            state = self._given.add(layer, self._scaled_layer(layer, state))
        return state

    def _scaled_layer(self, layer: int, state: ir.Value) -> ir.Value:
        """The state times the layer's own factor, where the file has one."""
        name = f"blk.{layer}.{LAYER_SCALE}"
        if not self._linears.has(name):
            return state
        return self._op("Mul", state, self._writer.store(name, self._linears.vector(name, 1)))

    def _refuse_unused(self) -> None:
        self._metadata.refuse_unread()
        facts = self._facts
        behind = tuple(f"blk.{facts.layers + layer}." for layer in range(facts.next_layers))
        unread = (*behind, *(f"blk.{layer}.attn_{letter}" for layer in facts.without_keys for letter in "kv"))
        unused = sorted(name for name in self._linears.unused() if not name.startswith(unread))
        if unused:
            raise GgufError(f"has {', '.join(unused[:5])}, which is not served for {self._facts.name}")

    def _logits(self, taken: ir.Value) -> ir.Value:
        head = self._table
        if self._linears.has(HEAD):
            head = self._linears.tensor(HEAD, self._table.rows, self._facts.width)
        logits = self._linears.multiply(taken, head, head.name)
        if self._linears.has(HEAD_BIAS):
            bias = self._linears.vector(HEAD_BIAS, head.rows)
            logits = self._op("Add", logits, self._writer.store(HEAD_BIAS, bias))
        logits = self._scaled(logits, "logits")
        return self._capped(logits, self._facts.logit_cap)

    def _scaled(self, value: ir.Value, what: str) -> ir.Value:
        factor = self._facts.scales.get(what, 1.0)
        return value if factor == 1 else self._op("Mul", value, self._writer.number(factor))

    def _growth(self, positions: ir.Value) -> ir.Value | None:
        """What queries are multiplied by, [1, 1, tokens, 1]: it grows with each original context of
        positions, as in Llama 4; None where it does not.
        """
        slope, op, number = self._facts.scales.get("queries", 0.0), self._op, self._writer.number
        if not slope:
            return None
        original = self._metadata.count(ORIGINAL, self._facts.context)
        column = op("Cast", op("Unsqueeze", positions, self._writer.ints(1, 3)), to=F32)
        contexts = op("Floor", op("Div", column, number(float(original))))
        logs = op("Log", op("Add", contexts, number(1.0)))
        return op("Add", op("Mul", logs, number(slope)), number(1.0))

    def _capped(self, logits: ir.Value, cap: float) -> ir.Value:
        if not cap:
            return logits
        factor = self._writer.number(cap)
        return self._op("Mul", self._op("Tanh", self._op("Div", logits, factor)), factor)

    def _cos_sin(self, positions: ir.Value, rotary: Rotary, name: str) -> CosSin:
        pace = self._writer.store(name, rotary.pace.reshape(1, 1, -1))
        angles = self._op("Mul", self._given.columns(positions), pace)
        cos_sin = self._op("Cos", angles), self._op("Sin", angles)
        if rotary.factor == 1:
            return cos_sin
        cosines, sines = (self._op("Mul", table, self._writer.number(rotary.factor)) for table in cos_sin)
        return cosines, sines

    def _layer(self, layer: int, state: ir.Value, cos_sin: CosSin) -> ir.Value:
        at, width, kind = f"blk.{layer}.", self._facts.width, self._facts.kind
        read = self._norm_before(layer, state) if kind.norm_of_feed else state
        if self._facts.feeds[layer]:
            return self._op("Add", state, self._feed_forward.write(at, read))
        if self._facts.is_recurrent(layer):
            attended = self._recurrent.write(at, read)
        else:
            attended = self._attention(layer, read, cos_sin if self._facts.has_rope(layer) else None)
        if kind.has_one_part:
            return self._op("Add", state, attended)
        if kind.norm_of_feed != AFTER_ATTENTION:
            attended = self._norms.where_given(attended, f"{at}{AFTER_ATTENTION}.weight")
        state = self._op("Add", state, self._scaled(attended, "residuals"))
        if self._feed_forward.has_experts_beside(at):
            fed = self._norms.where_given(self._feed_forward.beside(at, state), f"{at}{AFTER_FEED}.weight")
            return self._op("Add", state, fed)
        if not kind.is_parallel:
            before = kind.norm_of_feed
            read = self._norms.write(state, f"{at}{before}.weight", width) if before else state
        fed = self._norms.where_given(self._feed_forward.write(at, read), f"{at}{AFTER_FEED}.weight")
        return self._op("Add", state, self._scaled(fed, "residuals"))

    def _norm_before(self, layer: int, state: ir.Value) -> ir.Value:
        """The norm before attention; the first layer may have none behind that of the embeddings."""
        name = f"blk.{layer}.attn_norm.weight"
        if self._facts.kind.norms_embeddings and not layer:
            return self._norms.where_given(state, name)
        return self._norms.write(state, name, self._facts.width)

    def _attention(self, layer: int, read: ir.Value, cos_sin: CosSin | None) -> ir.Value:
        facts, at = self._facts, f"blk.{layer}."
        if facts.latent and cos_sin:
            return self._latent.write(at, read, cos_sin, partial(self._found, layer))
        heads = self._heads.write(layer, read, cos_sin)
        attended = self._found(layer, heads.query, heads.key, heads.value)
        width = facts.heads * facts.head_of(layer).size
        rows = self._op("Transpose", attended, perm=HEADS_FIRST)
        flat = self._op("Reshape", rows, self._writer.ints(1, -1, width))
        if heads.gate is not None:
            flat = self._op("Mul", flat, self._op("Sigmoid", heads.gate))
        return self._linears.linear(flat, f"{at}attn_output", facts.width, width)

    def _found(self, layer: int, query: ir.Value, key: ir.Value, value: ir.Value) -> ir.Value:
        """What queries find, which grow with their positions where the file says it."""
        if self._query_scale is not None:
            shape, query = query.shape, self._op("Mul", query, self._query_scale)
            query.dtype, query.shape = F32, shape
        return self._attended(layer, query, key, value)

    def _attended(self, layer: int, query: ir.Value, key: ir.Value, value: ir.Value) -> ir.Value:
        """[1, heads, tokens, size] of what the queries attend to."""
        facts, head, sinks = self._facts, self._facts.head_of(layer), f"blk.{layer}.attn_sinks.weight"
        more = []
        if self._linears.has(sinks):
            more = [None, self._writer.store(sinks, self._linears.vector(sinks, facts.heads))]
        attended = self._op(
            ATTENTION,
            query,
            key,
            value,
            *more,
            domain=DOMAIN,
            layer=facts.attention_number(layer),
            num_heads=facts.heads,
            num_kv_heads=head.kv_heads,
            head_size=head.size,
            scale=float(facts.scale),
            window=facts.window_of(layer),
            softcap=facts.attention_cap,
            **({IN_ORDER: 1} if self._given.whole_images == "windowed" and not facts.windows[layer] else {}),
        )
        attended.dtype, attended.shape = F32, ir.Shape([1, facts.heads, "num_tokens", head.size])
        return attended
