"""Anthropic's Messages API: requests are converted to chat requests, replies to messages."""
