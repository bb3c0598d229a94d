"""Metrics under vLLM's names, counters, and the times of requests and steps.

Imports nothing else of Braid: what is measured calls it, never the other way round.
"""
