"""What the lookup line costs and saves: the same chats with and without it, on one model, in turns."""
