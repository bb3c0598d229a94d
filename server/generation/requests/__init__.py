"""What may be asked for text, and what it becomes for a pipeline."""
