"""The Responses API: what may be asked, how it is told in events, and where it is kept."""
