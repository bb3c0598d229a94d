"""`python -m tools.export`: converts a Hugging Face model to a folder of the model repository."""
