"""Anthropic's language, POST messages: translated into a chat request, and its reply translated back."""
