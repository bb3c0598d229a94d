"""`make breadth-models`: every family of decoders, small and with random weights, exported and compared."""
