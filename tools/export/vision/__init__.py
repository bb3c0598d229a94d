"""`braid export` of vision models: the language model, the vision model and what images are read by."""
