"""Chat templates: a conversation → a prompt, rendered in a sandbox."""
