"""Models used from Python, in this process and without a server."""
