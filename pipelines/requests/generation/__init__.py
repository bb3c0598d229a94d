"""The fields of chats and completions: models, checks, and the input that they become."""
