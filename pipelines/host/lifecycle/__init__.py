"""Which models are in memory, and the clients that wait for one to come or go."""
