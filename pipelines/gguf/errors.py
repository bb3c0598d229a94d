"""What a GGUF file that cannot be served raises."""


class GgufError(ValueError):
    """The file is damaged, or says something that Braid does not serve; the text names it."""
