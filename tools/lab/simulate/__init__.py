"""Plays sessions against many simulated engines: what a machine more, and a route, would give."""
