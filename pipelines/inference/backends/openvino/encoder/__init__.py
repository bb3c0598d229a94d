"""Encoders of texts and images in OpenVINO."""
