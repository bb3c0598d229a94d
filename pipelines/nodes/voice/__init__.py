"""Voices of Piper's form: text → phonemes → waveforms."""
