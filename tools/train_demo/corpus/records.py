"""Turns that write a text as JSON for a schema of any shape, which the question gives.

Names and types of the keys vary freely: strings, whole numbers, booleans, lists of names, objects.
"""

from __future__ import annotations

import json
from typing import Any

from ..conversation import Expectation, Turn
from ..split import Draw, phrasings
from .fields import FIELDS, key_for
from .statements import plain, said

TYPES = {str: "string", int: "integer", bool: "boolean", list: "array"}
NAMED = phrasings("""
    {text} Give {keys}.
    {text} Tell me {keys}.
    What are {keys}? {text}
    Give {keys}. {text}
    {text} {keys}, please.
""")
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
    fields, text, choosable = said(draw)
    if draw.chance(0.2 if draw.held_out else 0.35) and choosable:
        keys = draw.some(list(fields), draw.number(1, len(fields)))
        fields = {key: fields[key] for key in keys}
    return _turn(_question(draw, fields, text), fields)


def forced(draw: Draw) -> Turn:
    """As `record`, but only the answer names the keys: a grammar forces them on the model."""
    fields, text, _ = said(draw)
    if not draw.held_out and draw.chance(0.3):
        return _turn(draw.phrase(NAMED, text=text, keys=_listed(list(fields))), fields)
    return _turn(f"{draw.phrase(TASKS)}{draw.any([' ', chr(10)])}{text}", fields)


def forced_apart(draw: Draw) -> tuple[str, Turn]:
    """As `forced`, but the task is apart: an application's system prompt, and what its user sends."""
    fields, text, _ = said(draw)
    return draw.phrase(TASKS), _turn(text, fields)


def invented(draw: Draw) -> Turn:
    """JSON with keys that are named and values that the model makes up."""
    kinds = draw.some(list(EXAMPLES), draw.number(1, 3))
    fields = {key_for(draw, FIELDS[kind]): EXAMPLES[kind] for kind in kinds}
    question = draw.phrase(
        INVENTED, keys=" and ".join(f"{draw.any(['a ', 'the ', ''])}{key}" for key in fields)
    )
    text = json.dumps(fields)
    return Turn(question, text, "I make up the values.", Expectation("json", fields))


def _turn(question: str, fields: dict[str, Any]) -> Turn:
    thought = "I need " + ", ".join(f"{key} {plain(value)}" for key, value in fields.items()) + "."
    return Turn(question, json.dumps(fields, ensure_ascii=False), thought, Expectation("json", fields))


def _question(draw: Draw, fields: dict[str, Any], text: str) -> str:
    if draw.chance(0.35) and not any(isinstance(value, dict) for value in fields.values()):
        return draw.phrase(LISTED, keys=_listed(list(fields)), text=text, line="\n")
    write = draw.any([schema_of, schema_of, _example, _types])
    return draw.phrase(ASKED, schema=json.dumps(write(fields)), text=text, line="\n")


def _listed(keys: list[str]) -> str:
    return ", ".join(keys[:-1]) + " and " + keys[-1] if len(keys) > 1 else keys[0]


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
