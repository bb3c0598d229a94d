# ruff: noqa: E501 (rows of tables)
"""Words and sentences of opinion, by domain and direction. Knows nothing of how they are put together."""

from __future__ import annotations

from ...split import Split, phrasings, words

DOMAINS: dict[str, tuple[str, Split[str]]] = {
    "film": (
        "film, movie, series, documentary, comedy, thriller, play, cartoon",
        words(
            "acting, plot, music, ending, dialogue, camera work, story, cast, first half, humour, script",
            "soundtrack, lead actor, final scene",
        ),
    ),
    "restaurant": (
        "restaurant, cafe, pizzeria, diner, bakery, bar, canteen",
        words(
            "food, service, soup, waiter, menu, coffee, steak, dessert, bread, atmosphere, pasta, salad, staff",
            "breakfast, cook, wine list",
        ),
    ),
    "hotel": (
        "hotel, hostel, guest house, resort, motel, apartment",
        words(
            "room, bed, view, pool, reception, location, bathroom, breakfast buffet, garden, air conditioning",
            "lobby, mattress, balcony",
        ),
    ),
    "device": (
        "phone, laptop, camera, vacuum cleaner, printer, headset, tablet, washing machine, watch, speaker",
        words(
            "battery, screen, sound, keyboard, software, design, charger, build quality, picture, speed, manual",
            "touchpad, packaging, microphone",
        ),
    ),
    "book": (
        "book, novel, biography, cookbook, comic, guidebook",
        words(
            "style, main character, ending, language, plot, cover, first chapter, translation, research",
            "narrator, last part, illustrations",
        ),
    ),
    "shop": (
        "shop, online store, delivery service, bank, airline, insurance company, gym, garage",
        words(
            "delivery, support, website, price, staff, app, advice, order process, hotline, return process",
            "checkout, manager, booking",
        ),
    ),
    "game": (
        "game, app, board game, puzzle, course, toy",
        words(
            "graphics, controls, rules, levels, tutorial, music, story, updates, interface",
            "difficulty, loading time, characters",
        ),
    ),
}
"""Domain → what is reviewed, and its aspects."""

WORDS: dict[str, Split[str]] = {
    "positive": words(
        """good, great, excellent, wonderful, fantastic, lovely, amazing, perfect, brilliant, nice, superb,
        delightful, impressive, outstanding, enjoyable, beautiful, pleasant, fun, friendly, reliable,
        remarkable, terrific, awesome, charming, comfortable, marvellous, solid, clever, splendid, helpful,
        exciting, magnificent, satisfying, top notch, incredible, refreshing, thoughtful, first class,
        fascinating, elegant, smooth, tasty, delicious, cosy, generous, cheerful, polite, quick, sturdy, precise,
        entertaining, moving, inspiring, funny, fresh, clean, spacious, attentive, honest, practical, stylish,
        admirable, divine, heavenly, phenomenal, sublime, lovable, worthwhile""",
        "fabulous, exceptional, gorgeous, stunning, flawless, memorable",
    ),
    "negative": words(
        """bad, terrible, awful, horrible, boring, poor, disappointing, ugly, dreadful, disgusting, useless,
        weak, annoying, unpleasant, rude, unreliable, cheap and nasty, slow, confusing, frustrating, dull,
        lousy, miserable, pathetic, mediocre at best, ridiculous, shabby, dirty, worthless, unbearable,
        overpriced, appalling, broken, depressing, sloppy, noisy, a joke, a mess, second rate,
        stupid, bland, stale, cold and greasy, filthy, smelly, cramped, clumsy, careless, arrogant, unfriendly,
        impolite, faulty, defective, flimsy, crude, predictable, pointless, shallow, irritating, offensive,
        unfair, dishonest, dangerous, inedible, nasty, wretched, hopeless, inferior, unhelpful, laughable""",
        "atrocious, abysmal, painful, tedious, hideous, unacceptable",
    ),
    "neutral": words(
        """okay, average, ordinary, acceptable, standard, fine I guess, nothing special, so so, all right,
        neither good nor bad, as expected, unremarkable, fair, medium, normal, decent enough, passable""",
        "run of the mill, middling, tolerable, neither here nor there",
    ),
}
INTENSE = words(
    "very, really, so, absolutely, extremely, truly, incredibly, totally, quite, just, simply, utterly",
    "remarkably, exceedingly, downright",
)
MILD = words("a bit, somewhat, rather, a little, kind of, fairly", "slightly, sort of")

WHOLE: dict[str, Split[str]] = {
    "positive": phrasings("""
        I love this {item}.
        I loved every minute of it.
        I would recommend this {item} to anyone.
        Highly recommended!
        We will definitely come back.
        I am very happy with it.
        Five stars from me.
        It exceeded my expectations.
        Best {item} I have ever had.
        Worth every penny.
        I could not be happier.
        It made my day.
        You should not miss this {item}.
        My whole family likes it.
        I can't stop telling my friends about it.
        It does everything I need, and does it well.
        I enjoyed it a lot.
        I have no complaints at all.
        There is nothing to complain about.
        It never lets me down.
        This {item} never disappoints.
        I can't imagine a better {item}.
        Nothing could be better.
        Thank you for this {item}!
        I was hooked from the start.
        It works like a charm.
        I would buy it again without thinking twice.
        Without a doubt the best {item} in years.
        What a treat!
        It gets better every time.
        Two thumbs up.
        I am impressed.
        We had a great time.
        Money well spent.
        * I am thrilled with this {item}.
        * You will not regret it.
        * I can only praise it.
        * It was a joy from start to finish.
        * I would give it six stars if I could.
        * I keep coming back for more.
        * There is not a single thing I would change.
    """),
    "negative": phrasings("""
        I hate this {item}.
        I want my money back.
        I would not recommend this {item} to anyone.
        Stay away from this {item}!
        We will never come back.
        I am very unhappy with it.
        One star is too much.
        It did not meet my expectations.
        Worst {item} I have ever had.
        A waste of money.
        A complete waste of time.
        I regret buying it.
        It ruined my day.
        It stopped working after a week.
        It broke on the first day.
        I fell asleep halfway through.
        I can't recommend it.
        I would not buy it again.
        Never again!
        Nobody helped us.
        We waited for an hour and nothing happened.
        They did not even say sorry.
        I expected much more.
        It does not do what it says.
        Save your money.
        What a disappointment.
        I had to send it back.
        There is nothing good to say about it.
        I was bored from the start.
        It gave me a headache.
        This {item} let me down again.
        I am disappointed.
        It gets worse every time.
        Two thumbs down.
        Nothing worked.
        Don't buy this {item}.
        I could not wait for it to end.
        * I am furious about this {item}.
        * You will regret it.
        * I can only warn you.
        * It was torture from start to finish.
        * I would give it zero stars if I could.
        * Once was more than enough.
        * It is falling apart already.
    """),
    "neutral": phrasings("""
        I bought this {item} on Monday.
        The {item} arrived yesterday.
        It comes in a box with two cables.
        I have not decided yet what to think of it.
        It is what it is.
        It does its job, no more and no less.
        I have no strong opinion about it.
        This {item} is from last year.
        My brother has the same one.
        We went there on a Tuesday with four people.
        I will write more when I have used it longer.
        I neither like it nor dislike it.
        It has good sides and bad sides.
        There are better ones and there are worse ones.
        It is about what I expected.
        The {item} has two floors and a door to the street.
        It costs twenty dollars.
        It is available in three colours.
        You get what you pay for.
        It is a {item} like many others.
        Some will like it, others will not.
        I used it twice so far.
        It was given to me as a present.
        Three stars.
        Does anyone know when the next one comes out?
        It did not change my life, but it did no harm.
        This {item} is for beginners.
        The {item} is near the station.
        It opened in March and closes at ten.
        I read about it in the newspaper.
        * I picked this {item} up last weekend.
        * It weighs about two kilos.
        * I feel indifferent about it.
        * For some it may be enough, for others not.
        * The box says that it was made in May.
        * It starts at eight and lasts two hours.
        * I could take it or leave it.
    """),
}
"""Sentences that stand for themselves, `{item}` is what is reviewed."""
