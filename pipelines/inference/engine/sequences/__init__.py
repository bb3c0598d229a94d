"""A sequence: its tokens, its slot, its images, its place in a beam search."""
