"""Folders of exported models that have no graph.yaml: what they hold, and the graph that serves them."""
