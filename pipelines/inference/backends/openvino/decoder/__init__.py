"""Decoders in OpenVINO, read from IR or ONNX."""
