"""What Braid can do at most: its engine, and its whole way to a client, around a model that takes no time."""
