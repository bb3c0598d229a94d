"""Questions with a fixed set of answers: what a decoder reads of one, and what its probabilities say."""
