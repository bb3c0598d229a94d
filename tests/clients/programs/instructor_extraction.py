"""instructor: pydantic models out of replies, in each of its modes and streamed.  Argument: the server's address."""

import sys
from collections.abc import Iterable

import instructor
from cases import run
from instructor import Mode
from openai import OpenAI
from pydantic import BaseModel, Field

URL = sys.argv[1]
ASKED = [{"role": "user", "content": "Ada is 36 years old."}]
FENCED = r'\{"name": "[A-Z][a-z]{1,8}", "age": [0-9]{2}\}\n```'


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


class Facts(BaseModel):
    """Any JSON object: its names are the model's."""

    model_config = {"extra": "allow"}


class GetWeather(BaseModel):
    """Current weather of a city"""

    city: str


def client(mode: Mode) -> instructor.Instructor:
    return instructor.from_openai(OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0), mode=mode)


def create(mode: Mode, model: type = Person, **options: object) -> object:
    common = {"model": "braid-demo", "messages": ASKED, "max_tokens": 80, "max_retries": 0, "temperature": 0}
    given = {name: value for name, value in (common | options).items() if value is not None}
    return client(mode).chat.completions.create(response_model=model, **given)


def by_tools() -> None:
    assert isinstance(create(Mode.TOOLS), Person)


def by_strict_tools() -> None:
    assert isinstance(create(Mode.TOOLS_STRICT), Person)


def by_schema() -> None:
    assert isinstance(create(Mode.JSON_SCHEMA), Person)


def by_json() -> None:
    assert isinstance(create(Mode.JSON, Facts), Facts)


def by_markdown() -> None:
    """A fenced block, which no response format describes: a regular expression does."""
    found = create(Mode.MD_JSON, extra_body={"structured_outputs": {"regex": f"```json\n{FENCED}"}})
    assert isinstance(found, Person)


def by_responses() -> None:
    found = create(Mode.RESPONSES_TOOLS, max_tokens=None, max_output_tokens=80)
    assert isinstance(found, Person)


def parallel() -> None:
    found = create(
        Mode.PARALLEL_TOOLS,
        Iterable[GetWeather],
        messages=[{"role": "user", "content": "What is the weather in Oslo?"}],
    )
    assert [each.city for each in found] == ["Oslo"]


def partial() -> None:
    pieces = list(
        client(Mode.TOOLS).chat.completions.create_partial(
            model="braid-demo", messages=ASKED, response_model=Person, max_tokens=80, max_retries=0
        )
    )
    assert isinstance(pieces[-1].age, int)


def several() -> None:
    """A stream of objects of one type, as they are complete."""
    people = client(Mode.TOOLS).chat.completions.create_iterable(
        model="braid-demo",
        messages=ASKED,
        response_model=Person,
        max_tokens=60,
        max_retries=0,
        temperature=0,
        stop=["}"],
    )
    assert all(isinstance(person, Person) for person in people)


run([by_tools, by_strict_tools, by_schema, by_json, by_markdown, by_responses, parallel, partial, several])
