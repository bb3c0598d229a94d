"""Text to speech: fields, encoders of sound, events."""
