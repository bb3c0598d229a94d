"""Models that find entities of the labels in a request, of GLiNER's form."""
