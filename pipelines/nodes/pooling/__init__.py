"""The batcher node, and what workers make of its outputs: labels, ranks, similarities, shorter vectors."""
