# ruff: noqa: E501 (rows of tables)
"""Turns that write a text as JSON for a schema of any shape, which the question gives.

Names and types of the keys vary freely: strings, whole numbers, booleans, lists of names, objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..conversation import Expectation, Turn
from ..split import Draw, Split, phrasings, words
from . import tables
from .invention import made_up_word, name_or_new

EVENTS = words(
    "meeting, party, concert, lesson, lunch, dinner, science fair, exam, football game, wedding, picnic, book club",
    "workshop, street market, film night",
)
COLOURS = words("red, blue, green, yellow, orange, purple, pink, white, black, brown", "grey, golden")
STATES = words("open, closed, ready, sold, lost, late, new, broken, paid, shipped", "delayed, finished")
TYPES = {str: "string", int: "integer", bool: "boolean", list: "array"}


class Field(NamedTuple):
    """A value's kind: the names that its key may have, and how it is drawn."""

    keys: Split[str]
    value: Callable[[Draw], Any]


def _person(draw: Draw) -> str:
    return name_or_new(draw, tables.NAMES)


def _people(draw: Draw) -> list[str]:
    return list(dict.fromkeys(_person(draw) for _ in range(draw.number(2, 3))))


def _thing(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.4) else draw.of(tables.THINGS)


FIELDS: dict[str, Field] = {
    "person": Field(
        words("name, person, full_name, user, who, customer, first_name, userName", "member, client_name"),
        _person,
    ),
    "people": Field(
        words("participants, people, names, guests, attendees, friends, persons", "members, invited"), _people
    ),
    "age": Field(
        words("age, years, age_in_years, person_age, userAge", "how_old"), lambda d: d.number(1, 99)
    ),
    "place": Field(
        words("city, place, location, town, where, home_city, cityName", "destination, site"),
        lambda d: name_or_new(d, tables.CITIES),
    ),
    "job": Field(words("job, work, profession, job_title, occupation", "trade"), lambda d: d.of(tables.JOBS)),
    "event": Field(
        words("event, name, title, event_name, what, eventTitle", "activity, occasion"),
        lambda d: d.of(EVENTS),
    ),
    "day": Field(
        words("day, date, weekday, when, event_date, dayOfWeek", "scheduled_for"),
        lambda d: d.any(tables.DAYS),
    ),
    "thing": Field(words("product, item, thing, product_name, article, object", "goods, itemTitle"), _thing),
    "price": Field(
        words("price, cost, amount, price_usd, total, unitPrice", "fee, charge"), lambda d: d.number(1, 999)
    ),
    "quantity": Field(
        words("quantity, count, pieces, number, how_many, qty", "num_items"), lambda d: d.number(2, 60)
    ),
    "colour": Field(words("color, colour, paint, shade, itemColor", "hue"), lambda d: d.of(COLOURS)),
    "state": Field(words("status, state, order_status, condition", "phase"), lambda d: d.of(STATES)),
}
TEXTS: list[tuple[str, Split[str]]] = [
    ("people event day", phrasings("""
        {people} are going to a {event} on {day}.
        {people} go to the {event} on {day}.
        On {day}, {people} will be at the {event}.
        {people} have a {event} on {day}.
        * {people} will go to a {event} on {day}.
    """)),
    ("event day place", phrasings("""
        The {event} is on {day} in {place}.
        There is a {event} in {place} on {day}.
        We have a {event} on {day} in {place}.
        On {day} we go to the {event} in {place}.
        * The {event} in {place} will be on {day}.
    """)),
    ("people place", phrasings("""
        {people} live in {place}.
        {people} are in {place}.
        {people} travel to {place} together.
        * {people} went to {place}.
    """)),
    ("person age place", phrasings("""
        {person} is {age} years old and lives in {place}.
        {person}, {age}, comes from {place}.
        {person} is {age} and moved to {place}.
        * In {place} I met {person}, who is {age} years old.
    """)),
    ("person job", phrasings("""
        {person} is a {job}.
        {person} works as a {job}.
        My friend {person} is a {job}.
        * I know {person}, who is a {job}.
    """)),
    ("person job place", phrasings("""
        {person} is a {job} in {place}.
        {person} works in {place} as a {job}.
        * In {place}, {person} works as a {job}.
    """)),
    ("person thing price", phrasings("""
        {person} bought a {thing} for {price} dollars.
        {person} paid {price} euros for the {thing}.
        {person} sold a {thing} for {price} dollars.
        * For {price} dollars {person} bought a {thing}.
    """)),
    ("thing colour price", phrasings("""
        The {colour} {thing} costs {price} dollars.
        The {thing} is {colour} and costs {price} euros.
        A {thing}, {colour}, for {price} dollars.
        * They sell a {colour} {thing} for {price} euros.
    """)),
    ("person quantity thing", phrasings("""
        {person} ordered {quantity} pieces of {thing}.
        {person} wants {quantity} of the {thing}.
        {quantity} pieces of {thing} for {person}.
        * {person} needs {quantity} pieces of {thing}.
    """)),
    ("thing state", phrasings("""
        The {thing} is {state}.
        Your {thing} is {state}.
        This {thing} was {state}.
        * I heard that the {thing} is {state}.
    """)),
    ("person age", phrasings("""
        {person} is {age}.
        {person} is {age} years old.
        My name is {person} and I am {age}.
        * At {age}, {person} is still young.
    """)),
]  # fmt: skip
ASKED = phrasings("""
    Answer in JSON with this schema: {schema}{line}{text}
    Return JSON that fits this schema: {schema} Text: {text}
    {text} Return JSON like this: {schema}
    Extract as JSON with the schema {schema}: {text}
    Schema: {schema} Text: {text}
    Use this schema: {schema}{line}{line}{text}
    {text}{line}{line}JSON schema: {schema}
    Text: {text}{line}Write it as JSON with this schema: {schema}
    Fill in {schema} from this text: {text}
    * Please answer in JSON with this schema: {schema} {text}
    * {text} Please return JSON that fits {schema}.
    * Extract the data with this schema: {schema}{line}{text}
""")
LISTED = phrasings("""
    Extract {keys} as JSON: {text}
    Return JSON with {keys}: {text}
    {text} Return {keys} as JSON.
    JSON with the fields {keys}: {text}
    Text: {text} Keys: {keys}. Answer in JSON.
    Give me JSON with {keys}. {text}
    * Please extract {keys} as JSON: {text}
    * {text} Write {keys} as JSON.
""")
INVENTED = phrasings("""
    Give me a JSON object with {keys}.
    Give me JSON with {keys}
    Make up a JSON object with {keys}.
    Write a JSON object with {keys}.
    An example of JSON with {keys}, please.
    Return any JSON object with {keys}.
    Create JSON with {keys}.
    * Please give me a JSON object with {keys}.
    * Invent a JSON object with {keys}.
""")
EXAMPLES: dict[str, Any] = {
    "person": "Anna",
    "age": 30,
    "place": "Paris",
    "job": "teacher",
    "day": "Monday",
    "thing": "apple",
    "price": 5,
    "quantity": 3,
    "colour": "blue",
    "people": ["Anna", "Ben"],
}
TASKS = phrasings("""
    Extract the event information.
    Extract the information.
    Extract the data.
    Extract the data as JSON.
    Answer in JSON.
    You extract data.
    Extract the person.
    Return the facts as JSON.
    * Extract the details.
    * Extract what the text says.
""")


def record(draw: Draw) -> Turn:
    """A text and its JSON, for a schema, for keys by name, or for keys that a grammar would force."""
    fields, text = _said(draw)
    if draw.chance(0.2):
        keys = draw.some(list(fields), draw.number(1, len(fields)))
        fields = {key: fields[key] for key in keys}
    return _turn(_question(draw, fields, text), fields)


def forced(draw: Draw) -> Turn:
    """As `record`, but only the answer names the keys: a grammar forces them on the model."""
    fields, text = _said(draw)
    return _turn(f"{draw.phrase(TASKS)}{draw.any([' ', chr(10)])}{text}", fields)


def invented(draw: Draw) -> Turn:
    """JSON with keys that are named and values that the model makes up."""
    kinds = draw.some(list(EXAMPLES), draw.number(1, 3))
    fields = {_key(draw, FIELDS[kind]): EXAMPLES[kind] for kind in kinds}
    question = draw.phrase(
        INVENTED, keys=" and ".join(f"{draw.any(['a ', 'the ', ''])}{key}" for key in fields)
    )
    text = json.dumps(fields)
    return Turn(question, text, "I make up the values.", Expectation("json", fields))


def _turn(question: str, fields: dict[str, Any]) -> Turn:
    thought = "I need " + ", ".join(f"{key} {_plain(value)}" for key, value in fields.items()) + "."
    return Turn(question, json.dumps(fields, ensure_ascii=False), thought, Expectation("json", fields))


def _said(draw: Draw) -> tuple[dict[str, Any], str]:
    if draw.chance(0.35):
        return _free(draw)
    kinds, sentences = draw.any(TEXTS)
    values = {kind: FIELDS[kind].value(draw) for kind in kinds.split()}
    text = draw.phrase(sentences, **{kind: _plain(value) for kind, value in values.items()})
    keys = {kind: _key(draw, FIELDS[kind]) for kind in values}
    if len(set(keys.values())) < len(keys):
        return _said(draw)
    fields: dict[str, Any] = {keys[kind]: value for kind, value in values.items()}
    if draw.chance(0.1):
        fields = {draw.any(["data", "result", "record", "entry", "info"]): fields}
    return fields, text


def _free(draw: Draw) -> tuple[dict[str, Any], str]:
    """Keys that the text itself names, of any kind."""
    keys = list(dict.fromkeys(_free_key(draw) for _ in range(draw.number(1, 4))))
    fields = {key: _free_value(draw) for key in keys}
    style = draw.any(["colons", "sentence", "lines"])
    if style == "sentence":
        text = " and ".join(f"the {key} is {_plain(value)}" for key, value in fields.items())
        return fields, f"{text[0].upper()}{text[1:]}."
    mark = "\n" if style == "lines" else ", "
    return fields, mark.join(f"{key}: {_plain(value)}" for key, value in fields.items())


def _free_key(draw: Draw) -> str:
    if draw.held_out or draw.chance(0.3):
        field = FIELDS[draw.any(list(FIELDS))]
        return draw.of(field.keys)
    word = made_up_word(draw)
    return draw.any([word, word, f"{word}_{made_up_word(draw)}", f"{word}_id", f"is_{word}"])


def _free_value(draw: Draw) -> Any:
    kind = draw.weighted({"word": 4, "name": 3, "number": 4, "truth": 1, "phrase": 1})
    if kind == "number":
        return draw.number(0, draw.any([9, 99, 9999]))
    if kind == "truth":
        return draw.chance(0.5)
    if kind == "name":
        return _person(draw)
    return _thing(draw) if kind == "word" else f"{_thing(draw)} {_thing(draw)}"


def _key(draw: Draw, field: Field) -> str:
    """A usual name, at times with a strange word beside it."""
    key = draw.of(field.keys)
    if not draw.held_out and draw.chance(0.15):
        return f"{made_up_word(draw)}_{key}" if draw.chance(0.5) else f"{key}_{made_up_word(draw)}"
    return key


def _question(draw: Draw, fields: dict[str, Any], text: str) -> str:
    if draw.chance(0.35) and not any(isinstance(value, dict) for value in fields.values()):
        keys = list(fields)
        listed = ", ".join(keys[:-1]) + " and " + keys[-1] if len(keys) > 1 else keys[0]
        return draw.phrase(LISTED, keys=listed, text=text)
    write = draw.any([schema_of, schema_of, _example, _types])
    return draw.phrase(ASKED, schema=json.dumps(write(fields)), text=text, line="\n")


def schema_of(value: Any) -> dict[str, Any]:
    """The value's JSON schema."""
    if isinstance(value, dict):
        properties = {key: schema_of(inner) for key, inner in value.items()}
        return {"type": "object", "properties": properties, "required": list(value)}
    if isinstance(value, list):
        return {"type": "array", "items": {"type": "string"}}
    return {"type": TYPES[type(value)]}


def _types(value: Any) -> Any:
    """The names of the types by key."""
    if isinstance(value, dict):
        return {key: _types(inner) for key, inner in value.items()}
    return ["string"] if isinstance(value, list) else TYPES[type(value)]


def _example(value: Any) -> Any:
    """The shape, with empty values."""
    if isinstance(value, dict):
        return {key: _example(inner) for key, inner in value.items()}
    return ["..."] if isinstance(value, list) else {str: "...", int: 0, bool: False}[type(value)]


def _plain(value: Any) -> str:
    """A value as text says it."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(value[:-1]) + " and " + value[-1] if len(value) > 1 else value[0]
    return str(value).lower() if isinstance(value, bool) else str(value)
