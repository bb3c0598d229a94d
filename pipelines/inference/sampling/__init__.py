"""Sampling: the parameters and state of each slot, and the stages that apply them."""
