"""Measures images: the first token after a new one and a known one, and Braid beside openvino_genai."""
