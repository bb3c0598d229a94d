"""What every part builds on: errors, element types, cancellation, the cache folder, processes with bounds."""
