"""ONNX files of any exporter → one form, with one abstract attention node for each layer."""
