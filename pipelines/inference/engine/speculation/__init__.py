"""Speculation: state for the nodes that draft tokens, the cost of draft tokens, and their verification."""
