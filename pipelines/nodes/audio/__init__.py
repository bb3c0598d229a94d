"""Sound files → samples → features, for speech models and for the sounds of messages."""
