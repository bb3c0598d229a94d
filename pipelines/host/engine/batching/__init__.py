"""Token-budget batching for encoders: texts of many requests side by side, the near ones together."""
