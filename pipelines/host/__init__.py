"""The engine host: one process that owns every model, its cache and its engine."""
