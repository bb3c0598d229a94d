"""`braid export` of Whisper models, from Hugging Face's and from CTranslate2's folders; needs no torch."""
