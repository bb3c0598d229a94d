"""vLLM's paths for other servers and trainers: prompts in token ids, and replies to them."""
