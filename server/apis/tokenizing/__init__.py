"""The tokenizer API: request and reply models, and conversion between text and token ids."""
