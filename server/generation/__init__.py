"""The language of chat/completions and completions: what may be asked, and how it is answered."""
