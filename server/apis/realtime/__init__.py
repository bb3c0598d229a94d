"""Text of live speech over a WebSocket: sound in pieces, and its text while it is spoken."""
