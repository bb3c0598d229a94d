"""Pages of docs/ that are generated from the code: settings, and the tables of the graph language."""
