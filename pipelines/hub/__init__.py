"""Models by name: what a hub offers of one, its files in a cache, and the folder that a server reads."""
