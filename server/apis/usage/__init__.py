"""What each API key has used: requests and tokens by day and model."""
