"""Sentences for a synthetic voice, and what is said in the recording of two cities."""

from __future__ import annotations

SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "A small boat sailed slowly across the quiet lake.",
    "She opened the window and looked at the garden.",
    "The children played in the park until the evening.",
    "My brother bought a new bicycle last summer.",
    "We should leave early to catch the morning train.",
    "The doctor asked the patient a few simple questions.",
    "He wrote a long letter to his old friend.",
    "The museum is closed on Monday and Tuesday.",
    "Please put the clean dishes back on the shelf.",
    "The teacher explained the lesson with a short story.",
    "A strong wind blew the leaves from the trees.",
    "They built a wooden house near the river.",
    "The market sells fresh bread, milk and cheese.",
    "I forgot my umbrella and walked home in the rain.",
    "The company will announce the results next week.",
    "Her daughter learned to play the piano very quickly.",
    "The road to the village was narrow and steep.",
    "Science is the study of the world around us.",
    "It takes about an hour to drive to the airport.",
)
TWO_CITIES = """
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,
it was the epoch of belief, it was the epoch of incredulity, it was the season of light, it was the season of
darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing
before us, we were all going direct to heaven, we were all going direct the other way. In short, the period
was so far like the present period that some of its noisiest authorities insisted on its being received, for
good or for evil, in the superlative degree of comparison only.
"""
