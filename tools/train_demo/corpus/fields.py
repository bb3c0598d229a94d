# ruff: noqa: E501 (rows of words)
"""The values that a text may tell, each kind with the names that keys for it have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..split import Draw, Split, listed, words
from . import tables
from .invention import made_up_word, name_or_new

EVENTS = words(
    "meeting, party, concert, lesson, lunch, dinner, science fair, exam, football game, wedding, picnic, book club",
    "workshop, street market, film night",
)
COLOURS = words("red, blue, green, yellow, orange, purple, pink, white, black, brown", "grey, golden")
STATES = words("open, closed, ready, sold, lost, late, new, broken, paid, shipped", "delayed, finished")


class Field(NamedTuple):
    """A value's kind: the names that its key may have, how it is drawn, and names for training alone."""

    keys: Split[str]
    value: Callable[[Draw], Any]
    more_keys: tuple[str, ...] = ()


def person(draw: Draw) -> str:
    return name_or_new(draw, tables.NAMES)


def _people(draw: Draw) -> list[str]:
    return list(dict.fromkeys(person(draw) for _ in range(draw.number(2, 3))))


def thing(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.4) else draw.of(tables.THINGS)


def _of(draw: Draw, known: Split[str], most: int = 1) -> str:
    """A known word, or in training at times up to `most` that are made up."""
    if draw.held_out or not draw.chance(0.3):
        return draw.of(known)
    return " ".join(made_up_word(draw) for _ in range(draw.number(1, most)))


def _event(draw: Draw) -> str:
    """A known one, or in training often made-up words or a known one of a kind that is made up."""
    if not draw.held_out and draw.chance(0.2):
        return f"{made_up_word(draw)} {draw.of(EVENTS).split()[-1]}"
    return _of(draw, EVENTS, most=2)


FIELDS: dict[str, Field] = {
    "person": Field(
        words("name, person, full_name, user, who, customer, first_name, userName", "member, client_name"),
        person,
        listed(
            "owner, buyer, guest, worker, employee, contact, human, author, person_name, fullName, who_is_it"
        ),
    ),
    "people": Field(
        words("participants, people, names, guests, attendees, friends, persons", "members, invited"),
        _people,
        listed("users, visitors, group, team, party, everybody, people_list, allNames, crew"),
    ),
    "age": Field(
        words("age, years, age_in_years, person_age, userAge", "how_old"),
        lambda d: d.number(1, 99),
        listed("ageYears, number_of_years, old, lifetime, age_now"),
    ),
    "place": Field(
        words("city, place, location, town, where, home_city, cityName", "destination, site"),
        lambda d: name_or_new(d, tables.CITIES),
        listed("region, venue, spot, area, city_of, where_to, townName, location_name"),
    ),
    "job": Field(
        words("job, work, profession, job_title, occupation", "trade"),
        lambda d: _of(d, tables.JOBS),
        listed("role, position, career, work_as, jobName, what_he_does"),
    ),
    "event": Field(
        words("event, name, title, event_name, what, eventTitle", "activity, occasion"),
        _event,
        listed(
            "name, happening, name, meeting_name, name, subject, name, program, plan, topic, kind_of_event"
        ),
    ),
    "day": Field(
        words("day, date, weekday, when, event_date, dayOfWeek", "scheduled_for"),
        lambda d: d.any(tables.DAYS),
        listed("on_day, deadline, day_name, starts_on, dayName, time, planned"),
    ),
    "thing": Field(
        words("product, item, thing, product_name, article, object", "goods, itemTitle"),
        thing,
        listed("purchase, good, ware, stuff, thing_name, itemName, device"),
    ),
    "price": Field(
        words("price, cost, amount, price_usd, total, unitPrice", "fee, charge"),
        lambda d: d.number(1, 999),
        listed("value, dollars, money, sum, price_in_dollars, priceTotal, paid"),
    ),
    "quantity": Field(
        words("quantity, count, pieces, number, how_many, qty", "num_items"),
        lambda d: d.number(2, 60),
        listed("items, total_pieces, size, n, itemCount, ordered, units"),
    ),
    "colour": Field(
        words("color, colour, paint, shade, itemColor", "hue"),
        lambda d: _of(d, COLOURS),
        listed("colorName, tint, colour_of_item, painted, look"),
    ),
    "state": Field(
        words("status, state, order_status, condition", "phase"),
        lambda d: _of(d, STATES),
        listed("itemState, how_is_it, progress, stage, current_status"),
    ),
}
TRAINED_FIELDS = FIELDS | {
    "guest": Field(
        words("person, guest, full_name, user, who, customer, first_name, userName"),
        person,
        listed(
            "participant, visitor, attendee, host, planner, contact, friend, owner, person_name, who_is_it"
        ),
    ),
    "country": Field(
        words("country, nation, state, land, home_country, countryName"),
        lambda d: made_up_word(d).capitalize() if d.chance(0.3) else d.any(tables.COUNTRIES).name,
    ),
}


def key_for(draw: Draw, field: Field) -> str:
    """A usual name, in training at times a rarer one or one with a strange word beside it."""
    if draw.held_out:
        return draw.of(field.keys)
    key = draw.any(field.more_keys) if field.more_keys and draw.chance(0.4) else draw.of(field.keys)
    if draw.chance(0.25):
        return f"{made_up_word(draw)}_{key}" if draw.chance(0.5) else f"{key}_{made_up_word(draw)}"
    return key


def strange_key(draw: Draw) -> str:
    """A name without sense, as in schemas that were not seen before."""
    word, other = made_up_word(draw), made_up_word(draw)
    return draw.any(
        [word, word, f"{word}_{other}", f"{word}{other.capitalize()}", f"{word}_id", f"is_{word}"]
    )
