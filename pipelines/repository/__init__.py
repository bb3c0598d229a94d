"""Folders of exported models: which there are, what they hold, and the graph that serves one without graph.yaml."""
