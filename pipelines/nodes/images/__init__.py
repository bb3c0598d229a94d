"""Images of messages → pixels, and the tokens that stand for them in a prompt.

One file for each family of vision models.
"""
