"""`braid export` of models of text with an encoder and a decoder: BART, Marian, T5 and their like."""
