"""What an output may be: constraints as grammars, and the guides that keep to them.

Knows llguidance; knows nothing of engines, logits or HTTP.
"""
