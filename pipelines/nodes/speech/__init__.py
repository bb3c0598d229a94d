"""Text of speech: the prompt of an audio model, and its output in segments with times."""
