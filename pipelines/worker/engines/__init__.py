"""Several engine hosts as one: what they serve together, and which one takes a request."""
