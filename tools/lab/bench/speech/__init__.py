"""The speech part of `make bench`: text of recordings by Whisper tiny.en, from Braid and from its peers."""
