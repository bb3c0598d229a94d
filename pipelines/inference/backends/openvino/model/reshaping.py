"""Gives a model the layouts, shapes and batch size that its line of the graph sets, before it is compiled."""

from __future__ import annotations

import openvino as ov
from openvino.preprocess import PrePostProcessor

from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.tensor_settings import Reshaping, port_name


def reshaped(model: ov.Model, inputs: list[str], outputs: list[str], reshaping: Reshaping) -> ov.Model:
    """The model of `reshaping`; `inputs` and `outputs` are the names of its ports, in order.

    Raises `ModelError`, and RuntimeError for what OpenVINO cannot do.
    """
    layouts = {
        port_name(named, inputs if named is None else [*inputs, *outputs], "layout"): text
        for named, text in reshaping.layouts
    }
    model = _with_layouts(model, inputs, outputs, layouts)
    shapes = {port_name(named, inputs, "shape"): shape for named, shape in reshaping.shapes}
    if reshaping.batch_size is not None:
        shapes = _with_batch(model, inputs, layouts, reshaping.batch_size)
    if shapes:
        model.reshape({inputs.index(name): ov.PartialShape(list(shape)) for name, shape in shapes.items()})
    return model


def _with_layouts(
    model: ov.Model, inputs: list[str], outputs: list[str], layouts: dict[str, str]
) -> ov.Model:
    if not layouts:
        return model
    processor = PrePostProcessor(model)
    for name, text in layouts.items():
        outside, inside = _sides(text)
        port = (
            processor.input(inputs.index(name)) if name in inputs else processor.output(outputs.index(name))
        )
        port.tensor().set_layout(ov.Layout(outside))
        port.model().set_layout(ov.Layout(inside))
    return processor.build()


def _sides(text: str) -> tuple[str, str]:
    """The layouts of the tensors outside and of the model; `NCHW` alone is both."""
    outside, _, inside = text.partition(":")
    return outside, inside or outside


def _with_batch(
    model: ov.Model, inputs: list[str], layouts: dict[str, str], batch_size: int
) -> dict[str, tuple[int, ...]]:
    """The shape of every input, with the batch size where its layout has N, else first."""
    shapes = {}
    for name, port in zip(inputs, model.inputs, strict=True):
        shape = port.get_partial_shape()
        if shape.rank.is_dynamic:
            raise ModelError(f"batch_size: the input {name} has no fixed number of axes; set `shape`.")
        sizes = [-1 if length.is_dynamic else length.get_length() for length in shape]
        if sizes:
            at = _sides(layouts.get(name, "N"))[0].find("N")
            sizes[max(at, 0)] = batch_size
        shapes[name] = tuple(sizes)
    return shapes
