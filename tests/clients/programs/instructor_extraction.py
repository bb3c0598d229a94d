"""instructor: pydantic models out of replies, by tools, by JSON schema and streamed.  Argument: the address."""

import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel, Field

URL = sys.argv[1]
ASKED = [{"role": "user", "content": "Ada is 36 years old."}]


class Person(BaseModel):
    """A person"""

    name: str = Field(max_length=12)
    age: int


def person(mode: instructor.Mode, **options: object) -> Person:
    client = instructor.from_openai(OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0), mode=mode)
    return client.chat.completions.create(
        model="braid-demo", messages=ASKED, response_model=Person, max_tokens=80, max_retries=0, **options
    )


def by_tools() -> None:
    assert isinstance(person(instructor.Mode.TOOLS), Person)


def by_schema() -> None:
    assert isinstance(person(instructor.Mode.JSON_SCHEMA), Person)


def streamed() -> None:
    client = instructor.from_openai(
        OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0), mode=instructor.Mode.TOOLS
    )
    pieces = list(
        client.chat.completions.create_partial(
            model="braid-demo", messages=ASKED, response_model=Person, max_tokens=80, max_retries=0
        )
    )
    assert isinstance(pieces[-1].age, int)


for case in (by_tools, by_schema, streamed):
    case()
    print("passed", case.__name__)
