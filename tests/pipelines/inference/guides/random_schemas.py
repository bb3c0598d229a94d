"""Random JSON Schemas of bounded size, in what llguidance compiles exactly; the same for the same seed."""

from __future__ import annotations

import random
import string
from typing import Any

MAX_DEPTH = 3
NAMES = ("a", "id", "name", "is_open", "größe", 'q"uote', "x y", "items", "0")
PATTERNS = ("[a-c]{2,4}", "^[A-Z][a-z]*$", "^\\d{3}-\\d{2}$", "x|yz", "^(ab)+$")
FORMATS = ("date", "ipv4", "ipv6", "uuid", "email", "hostname")
"""Not those of times: RFC 3339's grammar, which is kept to, has a leap second in every minute."""


class SchemaMaker:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def schema(self, depth: int = 0) -> Any:
        kinds = [self.string, self.integer, self.number, self.boolean, self.null, self.enum, self.const]
        if depth < MAX_DEPTH:
            kinds += [self.object] * 5 + [self.array] * 3 + [self.any_of, self.all_of, self.types, self.tuple]
        return self.draw.choice(kinds)(depth)

    def root(self) -> Any:
        """Half of them objects, some recursive, some true."""
        kind = self.draw.random()
        if kind < 0.02:
            return True
        if kind < 0.07:
            return self.recursive()
        return self.object(0) if kind < 0.55 else self.schema()

    def string(self, depth: int) -> Any:
        schema: dict[str, Any] = {"type": "string"}
        kind = self.draw.random()
        if kind < 0.4:
            schema["minLength"] = self.draw.randint(0, 4)
        if kind < 0.6:
            schema["maxLength"] = self.draw.randint(4, 9)
        elif kind < 0.75:
            schema["pattern"] = self.draw.choice(PATTERNS)
        elif kind < 0.9:
            schema["format"] = self.draw.choice(FORMATS)
        return schema

    def integer(self, depth: int) -> Any:
        return {"type": "integer", **self.bounds(lambda: self.draw.randint(-200, 200), 40)}

    def number(self, depth: int) -> Any:
        return {"type": "number", **self.bounds(lambda: round(self.draw.uniform(-9, 9), 2), 5)}

    def bounds(self, least: Any, span: int) -> dict[str, Any]:
        found, kind, low = {}, self.draw.random(), least()
        if kind < 0.5:
            found[self.draw.choice(["minimum", "exclusiveMinimum"])] = low
        if 0.3 < kind < 0.8:
            found[self.draw.choice(["maximum", "exclusiveMaximum"])] = low + span
        if kind > 0.9:
            found["multipleOf"] = self.draw.choice([2, 3, 5, 10])
        return found

    def boolean(self, depth: int) -> Any:
        return {"type": "boolean"}

    def null(self, depth: int) -> Any:
        return {"type": "null"}

    def value(self) -> Any:
        text = "".join(self.draw.choices(string.ascii_letters + ' "\\é', k=self.draw.randint(0, 8)))
        return self.draw.choice([text, self.draw.randint(-99, 99), True, None, [1, "x"], {"k": text}, 2.5])

    def enum(self, depth: int) -> Any:
        return {"enum": [self.value() for _ in range(self.draw.randint(1, 5))]}

    def const(self, depth: int) -> Any:
        return {"const": self.value()}

    def object(self, depth: int) -> Any:
        names = self.draw.sample(NAMES, self.draw.randint(0, 4))
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: self.schema(depth + 1) for name in names},
            "required": [name for name in names if self.draw.random() < 0.6],
        }
        kind = self.draw.random()
        if kind < 0.6:
            schema["additionalProperties"] = False
        elif kind < 0.8:
            schema["additionalProperties"] = self.schema(depth + 2)
        if 0.55 < kind < 0.65:
            schema["patternProperties"] = {"^p_": self.schema(depth + 2)}
        return schema

    def array(self, depth: int) -> Any:
        found: dict[str, Any] = {"type": "array", "items": self.schema(depth + 1)}
        if self.draw.random() < 0.7:
            found["minItems"] = self.draw.randint(0, 2)
            found["maxItems"] = self.draw.randint(2, 4)
        return found

    def tuple(self, depth: int) -> Any:
        first = [self.schema(depth + 1) for _ in range(self.draw.randint(1, 3))]
        return {"type": "array", "prefixItems": first, "items": False, "minItems": len(first)}

    def any_of(self, depth: int) -> Any:
        return {"anyOf": [self.schema(depth + 1) for _ in range(self.draw.randint(1, 3))]}

    def all_of(self, depth: int) -> Any:
        whole = self.object(depth)
        return {"allOf": [whole, {"type": "object", "required": list(whole["properties"])[:1]}]}

    def types(self, depth: int) -> Any:
        return {"type": self.draw.sample(["string", "integer", "boolean", "null"], 2)}

    def recursive(self) -> Any:
        node = {
            "type": "object",
            "properties": {
                "value": self.schema(2),
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["value"],
            "additionalProperties": False,
        }
        return {"$defs": {"node": node}, "$ref": "#/$defs/node"}
