"""How families of models mark their reasoning: a table, and readers for what is more than two tags."""
