"""The processes of a server: engine hosts and their supervisors, CPUs, the worker class, draining."""
