"""What only HTTP has of generation requests."""
