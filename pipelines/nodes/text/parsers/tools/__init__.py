"""How families of models write tool calls: tables, readers, and the grammar of declared tools."""
