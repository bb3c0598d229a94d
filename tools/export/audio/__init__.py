"""`braid export` of Voxtral, an audio model: its encoder, its language model and how sounds are read."""
