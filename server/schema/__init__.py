"""Fields of replies and errors as all APIs have them."""
