"""`python -m tools.export`: a Hugging Face decoder → a folder of the model repository that Braid serves."""
