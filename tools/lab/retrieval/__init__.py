"""What indexing and searching cost beside their models, and how well searches rank."""
