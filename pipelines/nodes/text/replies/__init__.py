"""Generated tokens → text → reply: detokenizing, stop strings, reasoning and tool calls."""
