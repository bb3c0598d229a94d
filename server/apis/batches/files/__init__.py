"""Files that clients upload and batches write: their rows, their content on disk, uploads."""
