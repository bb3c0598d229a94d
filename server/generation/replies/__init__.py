"""What comes back of a pipeline, as OpenAI's clients read it: whole and in pieces."""
