"""Files of a repository on their way into the cache: in parts, resumed, verified."""
