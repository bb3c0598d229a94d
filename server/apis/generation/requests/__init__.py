"""Request bodies of chat/completions and completions → the input of a pipeline."""
