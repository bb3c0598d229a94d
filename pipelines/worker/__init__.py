"""The models that a worker serves, and a request on its way through the graph of one.

Reaches the engine host through `pipelines.wire` alone, and imports no engine library.
"""
