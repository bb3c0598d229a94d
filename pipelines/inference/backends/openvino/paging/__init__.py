"""Paged attention in OpenVINO: the key-value cache, its tables, the inputs of a step."""
