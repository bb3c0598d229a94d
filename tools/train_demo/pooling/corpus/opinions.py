# ruff: noqa: E501 (rows of tables)
"""Words and sentences of opinion, by domain and direction."""

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
        admirable, divine, heavenly, phenomenal, sublime, lovable, worthwhile,
        spectacular, glorious, radiant, striking, dazzling, breathtaking, adorable, sensational, legendary,
        unforgettable, unbeatable, ideal, valuable, useful, respectful, warm, kind, sincere, graceful, bright,
        vivid, rich, robust, efficient, handy, effective, genius, magical, romantic, peaceful, happy, proud,
        successful, favourite, favorite, extraordinary, special, unique, sweet, lively, hilarious, epic""",
        "fabulous, exceptional, gorgeous, stunning, memorable, joyful",
    ),
    "negative": words(
        """bad, terrible, awful, horrible, boring, poor, disappointing, ugly, dreadful, disgusting, useless,
        weak, annoying, rude, unreliable, cheap and nasty, slow, confusing, frustrating, dull,
        lousy, miserable, pathetic, mediocre at best, ridiculous, shabby, dirty, worthless, unbearable,
        overpriced, appalling, broken, depressing, sloppy, noisy, a joke, a mess, second rate,
        stupid, bland, stale, cold and greasy, filthy, smelly, cramped, clumsy, careless, arrogant, unfriendly,
        impolite, faulty, defective, flimsy, crude, predictable, pointless, shallow, irritating, offensive,
        unfair, dishonest, dangerous, inedible, nasty, wretched, hopeless, inferior, unhelpful, laughable,
        unhappy, unsafe, unstable, unreasonable, unprofessional, unpleasant, uncomfortable, unusable, unwelcome,
        inadequate, incompetent, incomplete, inaccurate, insufficient, disgraceful, scandalous, outrageous,
        embarrassing, humiliating, hostile, aggressive, cruel, brutal, violent, sad, sick, toxic, rotten, cold,
        cheap, lazy, messy, crazy, silly, foolish, absurd, bizarre, vile, evil, damaged, dead, failing, false,
        fake, corrupt, disastrous, catastrophic, abominable, grim, bitter, angry, tiring, exhausting""",
        "painful, tragic, unacceptable, shameful, insulting",
    ),
    "neutral": words(
        """okay, average, ordinary, acceptable, standard, fine I guess, nothing special, so so, all right,
        neither good nor bad, as expected, unremarkable, fair, medium, normal, decent enough, passable,
        run of the mill, middling, tolerable, usual, typical, regular, nothing new, common,
        moderate, basic, plain, simple, general, neutral, everyday, mainstream, generic, habitual, formal""",
        "neither here nor there, conventional, traditional",
    ),
}
INTENSE = words(
    "very, really, so, absolutely, extremely, truly, incredibly, totally, quite, just, simply, utterly",
    "remarkably, completely",
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
        I am thrilled with this {item}.
        You won't regret it.
        I have nothing but praise for it.
        It was a joy to use.
        I would give it ten stars if I could.
        We keep coming back.
        I would not change a thing.
        I fell in love with it at once.
        A masterpiece!
        Everything worked from the first minute.
        The best decision of the year.
        They went out of their way to help us.
        Great!
        Simply the best.
        Love it.
        Well done!
        It could not have been better.
        My friends were jealous.
        It was worth the wait.
        I smiled the whole time.
        Perfect for us.
        I give it top marks.
        It is a pleasure to use.
        You can't go wrong with this {item}.
        It saved me a lot of time.
        * You will not regret it.
        * I can only praise it.
        * It was a joy from start to finish.
        * I would give it six stars if I could.
        * I keep coming back for more.
        * This {item} made us very happy.
        * We loved it.
        * Worth the money.
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
        I am furious about this {item}.
        You will be sorry if you buy it.
        I must warn you about it.
        It was torture to use.
        I would give it no stars if I could.
        Once is more than enough.
        It already fell apart.
        Not worth the money.
        It could have been better.
        I fell out of love with it at once.
        A disaster!
        Nothing worked from the first minute.
        The worst decision of the year.
        They did not care about us.
        Terrible!
        Simply the worst.
        Hate it.
        Shame on them!
        I threw it away.
        It was not worth the wait.
        I was angry the whole time.
        Not for us.
        It cost me a lot of time and nerves.
        I give it the lowest marks.
        It is a pain to use.
        Avoid this {item}.
        They lied to us.
        I want to forget this {item}.
        They never answered.
        * You will regret it.
        * I can only warn you.
        * It was torture from start to finish.
        * I would give it zero stars if I could.
        * It is falling apart already.
        * This {item} made us very angry.
        * We hated it.
        * It is not worth the price.
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
        I picked this {item} up on Friday.
        It weighs three kilos.
        I am indifferent.
        It is enough for some people, and not for others.
        The label says that it was made in June.
        It begins at nine and lasts one hour.
        I do not care much either way.
        I can take it or leave it.
        The {item} is on the second floor.
        We ordered it two weeks ago.
        It has four wheels and a handle.
        There is a bus to the {item} every hour.
        My sister told me about this {item}.
        It can be paid with a card.
        This is my second {item}.
        It is made of plastic and metal.
        I have had it for a month now.
        It is neither cheap nor expensive.
        Not much to say about it.
        It is used by students and teachers.
        The {item} was closed for two weeks in summer.
        * I picked this {item} up last weekend.
        * It weighs about two kilos.
        * I feel indifferent about it.
        * The box says that it was made in May.
        * It starts at eight and lasts two hours.
        * I could take it or leave it.
        * We bought the {item} in April.
    """),
}
"""Sentences that stand for themselves, `{item}` is what is reviewed."""
