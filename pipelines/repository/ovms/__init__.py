"""Folders and config files of OpenVINO Model Server: graph.pbtxt and config.json become Braid graphs."""
