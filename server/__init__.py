"""The Falcon application, its settings and services, and the `braid` command.

What clients send and get is in `server.apis`; models are reached through `pipelines.worker`.
"""
