"""Token-budget batching for encoders: texts of many requests in one batch, similar lengths together."""
