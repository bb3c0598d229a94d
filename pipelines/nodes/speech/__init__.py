"""Text of speech: the prompt of a model that hears, and its output in segments with times."""
