"""The graph language: the text of graph.yaml → a checked graph, its drawing and its JSON Schema.

Depends on pydantic and yaml alone: it knows no node type and no engine.
"""
