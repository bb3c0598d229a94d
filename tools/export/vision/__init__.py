"""`braid export` of models that see: the language model, the vision model and what images are read by."""
