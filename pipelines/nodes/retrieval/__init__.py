"""Lines of a search: the engine that finds passages, and the model that ranks them again."""
