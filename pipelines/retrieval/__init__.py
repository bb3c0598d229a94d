"""An index of passages on disk: cutting documents, storing their vectors and words, and searching them."""
