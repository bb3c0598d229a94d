"""Fields of requests, replies and errors as all APIs have them."""
