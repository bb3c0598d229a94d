"""A small search demo: finds the passage that answers each question by the embeddings of a served model."""
