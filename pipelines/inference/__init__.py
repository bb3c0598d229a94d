"""What computes in the engine host: engines, the backends that run exported files, samplers and guides."""
