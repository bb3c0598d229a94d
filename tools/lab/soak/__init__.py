"""Sends many mixed requests to a server and measures what it leaves behind: memory, descriptors, blocks."""
