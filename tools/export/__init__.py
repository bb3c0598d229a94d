"""`python -m tools.export`: a Hugging Face model → a folder of the model repository that Braid serves."""
