"""What a repository of a hub offers, by the names of its files, and which of it is taken."""
