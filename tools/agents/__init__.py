"""`braid agent NAME`: the configuration with which a coding agent uses a running server."""
