"""Folders and config files of OpenVINO Model Server: graph.pbtxt and config.json become Braid graphs."""

STATEFUL = "stateful models were removed from the model server; delete it"
"""Why a key of config.json, or a flag, for models with states is refused."""
