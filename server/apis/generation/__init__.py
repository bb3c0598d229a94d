"""The API of chat/completions and completions: requests and replies."""
