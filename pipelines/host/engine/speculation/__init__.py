"""Draft tokens: what the engine keeps for those who draft token, what they cost, and what came of them."""
