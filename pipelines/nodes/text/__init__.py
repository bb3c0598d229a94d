"""The nodes of text, which run in a worker and know no engine; here the one that adds a fixed prompt."""
