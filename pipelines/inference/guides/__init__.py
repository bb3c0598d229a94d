"""Guides of the engine host: they restrict the next token of a sequence to what a grammar or a thinking
budget allows.

The grammar texts come from `pipelines.grammars`; the interface is `pipelines.inference.contracts.guide`.
"""
