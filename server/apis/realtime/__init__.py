"""Live speech over a WebSocket: sound in pieces, its text while it is spoken, and spoken conversations."""
