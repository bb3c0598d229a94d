"""`braid export` of Voxtral, a model that hears: its encoder, its language model and how sounds are read."""
