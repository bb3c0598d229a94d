"""Recordings → texts: windows of sound, each tried until its text is good."""
