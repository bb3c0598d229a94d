"""Text of speech: forms in, windows of sound through a model, text and subtitles out."""
