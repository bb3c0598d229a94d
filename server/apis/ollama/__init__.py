"""Ollama's API: its conversations, texts, vectors and lists of models."""
