"""What all of the hub builds on: names, listings, events, errors, the environment and the cache."""
