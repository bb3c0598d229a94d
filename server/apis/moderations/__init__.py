"""OpenAI's moderations, by classifiers and guard models."""
