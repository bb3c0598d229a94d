# ruff: noqa: E501 (rows of tables)
"""Turns that write a text as JSON for a schema of any shape, which the question gives.

Names and types of the keys vary freely: strings, whole numbers, booleans, lists of names, objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..conversation import Expectation, Turn
from ..split import Draw, Split, listed, phrasings, words
from . import tables
from .distraction import disturbed
from .invention import made_up_word, name_or_new

EVENTS = words(
    "meeting, party, concert, lesson, lunch, dinner, science fair, exam, football game, wedding, picnic, book club",
    "workshop, street market, film night",
)
COLOURS = words("red, blue, green, yellow, orange, purple, pink, white, black, brown", "grey, golden")
STATES = words("open, closed, ready, sold, lost, late, new, broken, paid, shipped", "delayed, finished")
TYPES = {str: "string", int: "integer", bool: "boolean", list: "array"}


class Field(NamedTuple):
    """A value's kind: the names that its key may have, how it is drawn, and names for training alone."""

    keys: Split[str]
    value: Callable[[Draw], Any]
    more_keys: tuple[str, ...] = ()


class Said(NamedTuple):
    """A text and what it says; `choosable` where a key tells which of the values it means."""

    fields: dict[str, Any]
    text: str
    choosable: bool = True


def _person(draw: Draw) -> str:
    return name_or_new(draw, tables.NAMES)


def _people(draw: Draw) -> list[str]:
    return list(dict.fromkeys(_person(draw) for _ in range(draw.number(2, 3))))


def _thing(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.4) else draw.of(tables.THINGS)


def _of(draw: Draw, known: Split[str], most: int = 1) -> str:
    """A known word, or in training at times up to `most` that are made up."""
    if draw.held_out or not draw.chance(0.3):
        return draw.of(known)
    return " ".join(made_up_word(draw) for _ in range(draw.number(1, most)))


FIELDS: dict[str, Field] = {
    "person": Field(
        words("name, person, full_name, user, who, customer, first_name, userName", "member, client_name"),
        _person,
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
        lambda d: _of(d, EVENTS, most=2),
        listed("happening, meeting_name, subject, program, plan, topic, kind_of_event"),
    ),
    "day": Field(
        words("day, date, weekday, when, event_date, dayOfWeek", "scheduled_for"),
        lambda d: d.any(tables.DAYS),
        listed("on_day, deadline, day_name, starts_on, dayName, time, planned"),
    ),
    "thing": Field(
        words("product, item, thing, product_name, article, object", "goods, itemTitle"),
        _thing,
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
TEXTS: list[tuple[str, Split[str]]] = [
    ("people event day", phrasings("""
        {people} are going to a {event} on {day}.
        {people} go to the {event} on {day}.
        On {day}, {people} will be at the {event}.
        {people} have a {event} on {day}.
        We saw {people} at the {event} last {day}.
        The {event} on {day} was planned by {people}.
        Next {day} there is a {event} for {people}.
        {people} met at a {event}. It was a {day}.
        Every {day}, {people} have their {event}.
        Come to the {event} with {people} this {day}!
        {people} will miss the {event} on {day}.
        It was on {day} that {people} left the {event}.
        * {people} will go to a {event} on {day}.
    """)),
    ("event day place", phrasings("""
        The {event} is on {day} in {place}.
        There is a {event} in {place} on {day}.
        We have a {event} on {day} in {place}.
        On {day} we go to the {event} in {place}.
        On {day} there was a {event} in {place}.
        Do not forget the {event}: {place}, {day}.
        This {day}, {place} has its first {event}.
        In {place} they plan a {event} for {day}.
        {event} in {place}, {day}
        The {event} will start on {day}; the place is {place}.
        People from {place} come to the {event} next {day}.
        See you at the {event} in {place} on {day}.
        The {day} {event} was moved to {place}.
        * The {event} in {place} will be on {day}.
    """)),
    ("people place", phrasings("""
        {people} live in {place}.
        {people} are in {place}.
        {people} travel to {place} together.
        {people} flew to {place}.
        {people} stayed in {place} for a week.
        {people} will move to {place} soon.
        {people} were born in {place}.
        {people} left {place} yesterday.
        In {place} we saw {people}.
        Yesterday {people} came back from {place}.
        Did {people} like {place}?
        {place} is the home of {people}.
        Maybe {people} can come to {place} too.
        * {people} went to {place}.
    """)),
    ("person age place", phrasings("""
        {person} is {age} years old and lives in {place}.
        {person}, {age}, comes from {place}.
        {person} is {age} and moved to {place}.
        In {place} there lives {person}, now {age}.
        From {place} comes {person}, {age} years of age.
        When {person} was {age}, the family left {place}.
        At the age of {age}, {person} went to {place}.
        {person} turned {age} in {place}.
        Yesterday {person} ({age}) arrived in {place}.
        She saw {person}, {age}, in {place}.
        Now {person} lives in {place} and is {age}.
        We know {person} from {place}. {person} is {age}.
        * In {place} I met {person}, who is {age} years old.
    """)),
    ("person job", phrasings("""
        {person} is a {job}.
        {person} works as a {job}.
        My friend {person} is a {job}.
        By trade, {person} is a {job}.
        We need a {job} like {person}.
        The {job} is called {person}.
        She met {person}, the {job}.
        Our {job} {person} is ill today.
        As a {job}, {person} works at night.
        They say that {person} became a {job}.
        This is {person}, who wants to be a {job}.
        I think {person} was a {job} before.
        Yesterday the {job} {person} called.
        * I know {person}, who is a {job}.
    """)),
    ("person job place", phrasings("""
        {person} is a {job} in {place}.
        {person} works in {place} as a {job}.
        The {job} of {place} is {person}.
        As a {job}, {person} moved to {place}.
        From {place} comes the {job} {person}.
        In {place} they need a {job}, so {person} went there.
        {place} has a new {job}: {person}.
        I saw {person}, a {job}, in {place}.
        Last year {person} became a {job} in {place}.
        There is a {job} called {person} in {place}.
        {person} left {place} and is now a {job}.
        * In {place}, {person} works as a {job}.
    """)),
    ("person thing price", phrasings("""
        {person} bought a {thing} for {price} dollars.
        {person} paid {price} euros for the {thing}.
        {person} sold a {thing} for {price} dollars.
        The {thing} of {person} was {price} dollars.
        It took {price} euros until {person} had the {thing}.
        {price} dollars is what {person} paid for this {thing}.
        A {thing} for {price} euros, ordered by {person}.
        Yesterday {person} got a {thing}. It was {price} dollars.
        With {price} euros, {person} can have the {thing}.
        The new {thing} made {person} {price} dollars poorer.
        {price} euros! That was too much for {person} and the {thing}.
        This {thing} belongs to {person}, who gave {price} dollars.
        At the market {person} sold the {thing} for {price} euros.
        * For {price} dollars {person} bought a {thing}.
    """)),
    ("thing colour price", phrasings("""
        The {colour} {thing} costs {price} dollars.
        The {thing} is {colour} and costs {price} euros.
        A {thing}, {colour}, for {price} dollars.
        We paid {price} dollars for a {thing} in {colour}.
        For sale: {colour} {thing}, {price} euros.
        The shop has a {thing} in {colour} at {price} dollars.
        {price} dollars, {thing}, {colour}
        My new {thing} is {colour}. It was {price} euros.
        I want the {colour} {thing}; I have {price} dollars.
        You can get this {colour} {thing} for only {price} dollars.
        Here is a {colour} {thing} that costs {price} euros.
        At {price} euros the {thing} in {colour} is cheap.
        * They sell a {colour} {thing} for {price} euros.
    """)),
    ("person quantity thing", phrasings("""
        {person} ordered {quantity} pieces of {thing}.
        {person} wants {quantity} of the {thing}.
        {quantity} pieces of {thing} for {person}.
        Send {quantity} of the {thing} to {person}.
        {person}: {quantity} x {thing}
        We packed {quantity} pieces of {thing} for {person}.
        Today {person} sold {quantity} pieces of {thing}.
        {person} has {quantity} of them: {thing}.
        The order of {person} is {quantity} times {thing}.
        Please bring {person} the {thing}, {quantity} pieces.
        There were {quantity} pieces of {thing} in the box of {person}.
        Only {quantity} of the {thing} are left, said {person}.
        * {person} needs {quantity} pieces of {thing}.
    """)),
    ("thing state", phrasings("""
        The {thing} is {state}.
        Your {thing} is {state}.
        This {thing} was {state}.
        They said the {thing} was {state}.
        We think the {thing} is {state}.
        Now the {thing} is {state}.
        Why is the {thing} {state}?
        The {state} {thing} is here.
        It is sad that the {thing} is {state}.
        She told me that her {thing} is {state}.
        {thing}: {state}
        Yesterday my {thing} was still {state}.
        Look, a {state} {thing}!
        Nobody knew that the {thing} was {state}.
        * I heard that the {thing} is {state}.
    """)),
    ("person age", phrasings("""
        {person} is {age}.
        {person} is {age} years old.
        My name is {person} and I am {age}.
        {person} has turned {age}.
        The age of {person} is {age}.
        Now {person} is {age} years of age.
        Today {person} turns {age}.
        With {age} years, {person} is the oldest.
        When {person} was {age}, it rained.
        She is {person} and she is {age}.
        {age} is the age of {person}.
        In May, {person} will turn {age}.
        They are happy that {person} is {age}.
        For a child of {age}, {person} is tall.
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
    Answer with JSON that follows {schema}: {text}
    The answer must be JSON with the schema {schema}. {text}
    {text} Put this into JSON with the schema {schema}
    Turn the text into JSON. Schema: {schema}{line}Text: {text}
    Here is a schema: {schema} and here is a text: {text} Give me the JSON.
    Read: {text}{line}Then fill in {schema}
    Write JSON for {schema} with the facts of this text: {text}
    {schema}{line}{text}
    {text}{line}{schema}
    Take the data from the text and write {schema}: {text}
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
    Find {keys} and answer in JSON: {text}
    Write {keys} as JSON: {text}
    Turn this into JSON with the keys {keys}: {text}
    {text}{line}{line}Give me {keys} in JSON.
    I want {keys} as JSON. {text}
    Answer with a JSON object that has {keys}: {text}
    Read the text and return {keys} in JSON: {text}
    Take {keys} from this text and make JSON: {text}
    {text} JSON with {keys}, please.
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
    Show me a JSON object with {keys}.
    I need some JSON with {keys}.
    Any JSON with {keys}
    Imagine a JSON object with {keys}.
    Could I have JSON with {keys}?
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
    Extract what you find.
    Write down the facts.
    Read the text and answer in JSON.
    Turn the text into data.
    Give me the data.
    Find the values.
    Fill in the form.
    * Extract the details.
    * Extract what the text says.
""")


def record(draw: Draw) -> Turn:
    """A text and its JSON, for a schema, for keys by name, or for keys that a grammar would force."""
    fields, text, choosable = _said(draw)
    if draw.chance(0.2 if draw.held_out else 0.35) and choosable:
        keys = draw.some(list(fields), draw.number(1, len(fields)))
        fields = {key: fields[key] for key in keys}
    return _turn(_question(draw, fields, text), fields)


def forced(draw: Draw) -> Turn:
    """As `record`, but only the answer names the keys: a grammar forces them on the model."""
    fields, text, _ = _said(draw)
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


def _said(draw: Draw) -> Said:
    if draw.chance(0.35):
        return _free(draw)
    kinds, sentences = draw.any(TEXTS)
    values = {kind: FIELDS[kind].value(draw) for kind in kinds.split()}
    text = disturbed(draw, draw.phrase(sentences, **{kind: _plain(value) for kind, value in values.items()}))
    strange = not draw.held_out and draw.chance(0.2)
    keys = {kind: _strange_key(draw) if strange else _key(draw, FIELDS[kind]) for kind in values}
    if len(set(keys.values())) < len(keys):
        return _said(draw)
    fields: dict[str, Any] = {keys[kind]: value for kind, value in values.items()}
    if draw.chance(0.1):
        fields = {draw.any(["data", "result", "record", "entry", "info"]): fields}
    return Said(fields, text, not strange)


def _free(draw: Draw) -> Said:
    """Keys that the text itself names, of any kind."""
    keys = list(dict.fromkeys(_free_key(draw) for _ in range(draw.number(1, 4))))
    fields = {key: _free_value(draw) for key in keys}
    style = draw.any(["colons", "sentence", "lines"])
    if style == "sentence":
        text = " and ".join(f"the {key} is {_plain(value)}" for key, value in fields.items())
        return Said(fields, f"{text[0].upper()}{text[1:]}.")
    mark = "\n" if style == "lines" else ", "
    return Said(fields, mark.join(f"{key}: {_plain(value)}" for key, value in fields.items()))


def _free_key(draw: Draw) -> str:
    if draw.held_out or draw.chance(0.3):
        field = FIELDS[draw.any(list(FIELDS))]
        return draw.of(field.keys)
    return _strange_key(draw)


def _strange_key(draw: Draw) -> str:
    """A name without sense, as in schemas that were not seen before."""
    word, other = made_up_word(draw), made_up_word(draw)
    return draw.any(
        [word, word, f"{word}_{other}", f"{word}{other.capitalize()}", f"{word}_id", f"is_{word}"]
    )


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
    """A usual name, in training at times a rarer one or one with a strange word beside it."""
    if draw.held_out:
        return draw.of(field.keys)
    key = draw.any(field.more_keys) if draw.chance(0.4) else draw.of(field.keys)
    if draw.chance(0.25):
        return f"{made_up_word(draw)}_{key}" if draw.chance(0.5) else f"{key}_{made_up_word(draw)}"
    return key


def _question(draw: Draw, fields: dict[str, Any], text: str) -> str:
    if draw.chance(0.35) and not any(isinstance(value, dict) for value in fields.values()):
        keys = list(fields)
        listed = ", ".join(keys[:-1]) + " and " + keys[-1] if len(keys) > 1 else keys[0]
        return draw.phrase(LISTED, keys=listed, text=text, line="\n")
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
