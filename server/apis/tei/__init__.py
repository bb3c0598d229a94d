"""The native API of Hugging Face's text-embeddings-inference."""
