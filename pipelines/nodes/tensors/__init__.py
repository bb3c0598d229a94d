"""The infer node: requests for a model of plain tensors."""
