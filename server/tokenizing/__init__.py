"""What the tokenizer API may be asked, and how it is answered: text and conversations ↔ token ids."""
