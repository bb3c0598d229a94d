"""What endpoints work with: the way to the engine, the models, places for requests, the log of requests."""
