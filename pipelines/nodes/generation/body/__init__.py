"""The nodes of a step, which run in the engine host: model, speculation, grammar, sampler."""
