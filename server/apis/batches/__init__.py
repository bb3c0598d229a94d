"""Batches: files of requests that run below all others, survive restarts and end in files of results."""
