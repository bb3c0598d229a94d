"""Continuous batching: requests become sequences, and each step plans, reserves, runs and commits.

Runs a model through the protocols of `pipelines.inference.contracts`; does not know which backend it is.
"""
