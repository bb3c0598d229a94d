"""Guesses: what the engine keeps for those who guess, what they cost, and what came of them."""
