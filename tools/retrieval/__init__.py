"""A small search: questions and the passages that answer them, by the vectors of a served model."""
