"""DeepSeek's paths below /beta: texts with a gap, and messages that go on."""
