"""Texts, prompts and pairs → token ids, with bounds on their length, cut where the request says so."""
