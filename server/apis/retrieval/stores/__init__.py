"""OpenAI's vector stores: files cut, embedded and indexed in the background, and searches of them."""
