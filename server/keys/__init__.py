"""The file of named API keys, and the requests and tokens that each key may have in a minute."""
