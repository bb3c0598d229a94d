"""Rules of a reply that constrain what is generated: its reasoning and its tool calls."""
