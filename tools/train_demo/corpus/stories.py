"""Turns with a longer answer: tiny stories and poems from a template and the user's subject."""

from __future__ import annotations

from ..conversation import Turn, contains
from ..split import Draw, listed, phrasings
from . import tables
from .invention import made_up_word

STORY = phrasings("""
    Could you tell me a story about {hero}?
    Please write a story about {hero}.
    Tell me a story about {hero}.
    Tell me a short story about {hero}.
    Write a story about {hero}.
    Write a short story about {hero}.
    Can you tell me a story about {hero}?
    I want a story about {hero}.
    A story about {hero}, please.
    Make up a story about {hero}.
    * Please tell me a story about {hero}.
    * Could you write a story about {hero}?
""")
ANY_STORY = phrasings("""
    Tell me a story.
    Tell me a story
    Write a story.
    Write a short story.
    Can you tell me a story?
    Once upon a time
    * Please tell me a story.
""")
POEM = phrasings("""
    I would like a poem about {topic}.
    Please make a short poem about {topic}.
    Could you make a poem about {topic}?
    Write a poem about {topic}.
    Write a short poem about {topic}.
    Write me a poem about {topic}.
    Write a haiku about {topic}.
    Write a haiku about {topic}
    Write me a haiku about {topic}.
    Can you write a haiku about {topic}?
    A haiku about {topic}, please.
    A poem about {topic}, please.
    Can you write a poem about {topic}?
    Make a poem about {topic}.
    Tell me a poem about {topic}.
    * Please write a poem about {topic}.
    * Could you write a short poem about {topic}?
""")
ANIMALS = listed("fox, cat, dog, bear, mouse, rabbit, bird, frog, horse, dragon, owl, lion, robot, pirate")
PLACES = listed("forest, castle, garden, village, harbour, valley, little house, big city")
TREASURES = listed("golden key, red ball, old map, silver bell, blue stone, little lamp, warm blanket")
FRIENDS = listed("turtle, squirrel, duck, hedgehog, goat, crow")
NICKNAMES = listed("Tim, Lily, Max, Rosie, Pip, Bella, Toby, Luna")
VERSES = [
    "Softly I think of {topic},\nquiet and clear and bright.\n"
    "It stays with me all day long\nand sings to me at night.",
    "Oh {topic}, so dear to me,\nI see you and I smile.\n"
    "Come close and sit beside me now\nand stay a little while.",
    "I woke and thought of {topic},\nthe morning was so new.\n"
    "The world was small and friendly then,\nand I was happy too.",
]


def story(draw: Draw) -> Turn:
    """A story of five sentences or a poem of four lines."""
    if draw.chance(0.4):
        return _poem(draw)
    hero = draw.any(ANIMALS)
    article = "an" if hero[0] in "aeiou" else "a"
    question = draw.phrase(STORY, hero=f"{article} {hero}") if draw.chance(0.7) else draw.phrase(ANY_STORY)
    expect = contains("Once upon a time", hero) if hero in question else contains("Once upon a time")
    return Turn(question, _told(draw, hero), "The user wants a story. I make up a short one.", expect)


def _told(draw: Draw, hero: str) -> str:
    name, place = draw.any(NICKNAMES), draw.any(PLACES)
    treasure, friend = draw.any(TREASURES), draw.any(FRIENDS)
    return (
        f"Once upon a time there was a little {hero} named {name}. {name} lived in a {place}. "
        f'One day {name} found a {treasure}. A {friend} came by and asked: "Is that my {treasure}?" '
        f"{name} gave it back, and the {hero} and the {friend} became good friends. The end."
    ).replace("a old", "an old")


def _poem(draw: Draw) -> Turn:
    strange = not draw.held_out and draw.chance(0.4)
    topic = f"the {made_up_word(draw)}" if strange else draw.of(tables.TOPICS)
    poem = draw.any(VERSES).format(topic=topic)
    thought = f"The user wants a poem about {topic}. I write four lines."
    return Turn(draw.phrase(POEM, topic=topic), poem, thought, contains(topic))
