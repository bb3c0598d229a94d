"""HTTP alone: connections, bodies, forms, keys, admission, request ids, streams, errors.

Does not know which APIs there are.
"""
