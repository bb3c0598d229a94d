"""Lines that ask other models: a reply, passages, a request with passages, one of several graphs."""
