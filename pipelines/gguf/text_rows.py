"""A batch of texts as one row of tokens: attention alone parts them, all else computes each token alone."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pipelines.onnx_format.onnx_writer import OnnxWriter

TEXTS_FIRST = [1, 0, 2, 3]
INT64 = ir.DataType.INT64


class TextRows:
    """Nodes that turn int64[texts, length] `ids` to rows and back."""

    def __init__(self, writer: OnnxWriter, ids: ir.Value) -> None:
        self._writer, self._op = writer, writer.op
        self._shape = self._op("Shape", ids)
        length = self._op("Squeeze", self._op("Gather", self._shape, writer.ints(1)))
        self.numbers = self._op("Range", self._scalar(0), length, self._scalar(1))
        """int64[length] of the places of a text's tokens."""

    def row(self, values: ir.Value) -> ir.Value:
        """[texts, length] → [1, tokens]."""
        return self._op("Reshape", values, self._writer.ints(1, -1))

    def positions(self) -> ir.Value:
        """int64[1, tokens] of the places of all tokens."""
        return self.row(self._op("Expand", self.numbers, self._shape))

    def texts(self, row: ir.Value, width: int) -> ir.Value:
        """[1, tokens, width] → [texts, length, width]."""
        return self._op("Reshape", row, self._op("Concat", self._shape, self._writer.ints(width), axis=0))

    def attended(
        self, operands: list[tuple[ir.Value, int]], size: int, mask: ir.Value, scale: float, softcap: float
    ) -> ir.Value:
        """[1, heads, tokens, size] of queries, keys and values, each with its number of heads."""
        parted = [self._by_text(values, heads, size) for values, heads in operands]
        attended = self._op("Attention", *parted, mask, scale=float(scale), softcap=float(softcap))
        rows = self._op("Transpose", attended, perm=TEXTS_FIRST)
        return self._op("Reshape", rows, self._writer.ints(1, operands[0][1], -1, size))

    def mask(self, window: int, attention_mask: ir.Value | None = None) -> ir.Value:
        """bool, broadcast to [texts, heads, length, length]: whether the token of a row attends to that of a
        column.  Without an `attention_mask`, to those before it; with it, to all that are no padding.  A
        `window` of -1 is no limit; others count the tokens before, or those on both sides.
        """
        op = self._op
        if attention_mask is None:
            is_near = op("GreaterOrEqual", self._distance(), self._scalar(0))
            if window < 0:
                return is_near
            return op("And", is_near, op("Less", self._distance(), self._scalar(window)))
        is_token = op("Unsqueeze", op("Cast", attention_mask, to=ir.DataType.BOOL), self._writer.ints(1, 2))
        if window < 0:  # ONNX Runtime takes no row for all
            length = op("Gather", self._shape, self._writer.ints(1))
            return op(
                "Expand",
                is_token,
                op("Concat", self._writer.ints(1, 1), length, self._writer.ints(1), axis=0),
            )
        is_near = op("LessOrEqual", op("Abs", self._distance()), self._scalar(window // 2))
        return op("And", is_token, is_near)

    def biased(self, mask: ir.Value, slopes: np.ndarray) -> ir.Value:
        """float32[texts, heads, length, length], which is added to scores: -inf where `mask` is false, else
        what each head takes away for the tokens in between, float32[heads].
        """
        op, column = self._op, self._writer.store("slopes", -slopes.reshape(-1, 1, 1))
        apart = op("Cast", op("Abs", self._distance()), to=ir.DataType.FLOAT)
        bias = op("Mul", op("Unsqueeze", apart, self._writer.ints(0)), column)
        return op("Where", mask, bias, self._writer.number(-np.inf))

    def _distance(self) -> ir.Value:
        """int64[length, length]: how far the token of a column stands before that of a row."""
        op, ints = self._op, self._writer.ints
        return op("Sub", op("Unsqueeze", self.numbers, ints(1)), op("Unsqueeze", self.numbers, ints(0)))

    def _by_text(self, rows: ir.Value, heads: int, size: int) -> ir.Value:
        """[1, heads, tokens, size] → [texts, heads, length, size]."""
        op, ints = self._op, self._writer.ints
        shape = op("Concat", ints(heads), self._shape, ints(size), axis=0)
        return op("Transpose", op("Reshape", rows, shape), perm=TEXTS_FIRST)

    def _scalar(self, number: int) -> ir.Value:
        return self._writer.store(f"scalar.{number}", np.array(number, np.int64))
