"""Turns a client's constraint (JSON schema, regex, choice, grammar, tags) into llguidance grammar text.

Used in workers, when a request arrives, and in the engine host, when the text is compiled.
"""
