"""Gemini's generateContent: requests are converted to chat requests, replies to candidates."""
