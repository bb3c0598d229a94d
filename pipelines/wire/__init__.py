"""The wire between workers and the engine host: messages, and both ends of the connection."""
