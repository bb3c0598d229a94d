"""Images and sounds by URL: which addresses are allowed, and their bytes."""
