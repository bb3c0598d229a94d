"""The own paths of llama.cpp's server: completion, infill, props, slots, templates, embedding."""
