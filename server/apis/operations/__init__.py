"""Endpoints for those who run a server: models, health, metrics, load, status."""
