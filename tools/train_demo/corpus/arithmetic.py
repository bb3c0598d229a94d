"""Turns of arithmetic with whole numbers below one hundred, in digits, words and small stories.

One pair of operands in twenty is never trained on (`is_held_out`), nor are some ways to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from ..conversation import Expectation, Turn
from ..split import Draw, Split, phrasings
from . import tables
from .invention import name_or_new

UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
TABLE_LIMIT = 12  # multiplication and division stay inside the school table

SUM = phrasings("""
    Could you add {a} and {b}?
    Could you compute {a} + {b}?
    How much do {a} and {b} make?
    Work out {a} + {b}.
    Please add {a} and {b}.
    {a} + {b}
    {a}+{b}
    {a} + {b} =
    {a}+{b}=
    {a} + {b} = ?
    What is {a} + {b}?
    What is {a}+{b}?
    What's {a} + {b}?
    How much is {a} + {b}?
    Calculate {a} + {b}.
    Compute {a} + {b}.
    What is {a} plus {b}?
    What's {a} plus {b}?
    How much is {a} plus {b}?
    {a} plus {b}
    {a} plus {b}?
    Add {a} and {b}.
    Add {b} to {a}.
    What is the sum of {a} and {b}?
    The sum of {a} and {b}?
    Can you add {a} and {b}?
    Tell me what {a} plus {b} is.
    Solve {a} + {b}.
    What do you get when you add {a} and {b}?
    * Could you work out {a} + {b}?
    * Tell me the sum of {a} and {b}.
    * How much do {a} and {b} make together, {a} + {b}?
    * Please calculate {a} plus {b}.
""")
DIFFERENCE = phrasings("""
    Could you compute {a} - {b}?
    Work out {a} - {b}.
    Please subtract {b} from {a}.
    Can you take {b} from {a}?
    {a} - {b}
    {a}-{b}
    {a} - {b} =
    {a}-{b}=
    {a} - {b} = ?
    What is {a} - {b}?
    What is {a}-{b}?
    What's {a} - {b}?
    How much is {a} - {b}?
    Calculate {a} - {b}.
    Compute {a} - {b}.
    What is {a} minus {b}?
    What's {a} minus {b}?
    How much is {a} minus {b}?
    {a} minus {b}
    {a} minus {b}?
    Subtract {b} from {a}.
    Take {b} away from {a}.
    Tell me what {a} minus {b} is.
    Solve {a} - {b}.
    What do you get when you subtract {b} from {a}?
    * Could you work out {a} - {b}?
    * Please calculate {a} minus {b}.
    * Can you subtract {b} from {a}?
""")
PRODUCT = phrasings("""
    Could you compute {a} × {b}?
    Work out {a} × {b}.
    Please multiply {a} by {b}.
    Tell me {a} times {b}.
    {a} * {b}
    {a}*{b}
    {a} x {b}
    {a} × {b}
    {a} * {b} =
    {a} x {b} = ?
    What is {a} * {b}?
    What is {a} x {b}?
    What is {a} × {b}?
    How much is {a} × {b}?
    Calculate {a} * {b}.
    Compute {a} × {b}.
    What is {a} times {b}?
    What's {a} times {b}?
    How much is {a} times {b}?
    {a} times {b}
    Multiply {a} by {b}.
    Multiply {a} and {b}.
    What is {a} multiplied by {b}?
    What is the product of {a} and {b}?
    The product of {a} and {b}?
    Tell me what {a} times {b} is.
    Solve {a} * {b}.
    * Could you work out {a} × {b}?
    * Please calculate {a} times {b}.
    * Tell me the product of {a} and {b}.
""")
QUOTIENT = phrasings("""
    Could you compute {a} / {b}?
    Work out {a} / {b}.
    Please divide {a} by {b}.
    Can you divide {a} by {b}?
    {a} / {b}
    {a}/{b}
    {a} / {b} =
    {a} ÷ {b}
    What is {a} / {b}?
    What is {a} ÷ {b}?
    What is {a} divided by {b}?
    What's {a} divided by {b}?
    How much is {a} divided by {b}?
    Divide {a} by {b}.
    Calculate {a} / {b}.
    * Please calculate {a} divided by {b}.
    * Could you divide {a} by {b}?
""")
BOUGHT = phrasings("""
    {name} has {a} {things} and buys {b} more. How many {things} does {name} have now?
    {name} has {a} {things}. {name} finds {b} more. How many {things} does {name} have?
    I have {a} {things} and I buy {b} more. How many {things} do I have?
    I have {a} {things}. I get {b} more. How many {things} do I have now?
    {name} has {a} {things} and gets {b} more. How many {things} does {name} have?
    {name} has {a} {things}. {name} buys {b} more. How many {things} are there now?
    There are {a} {things} and {b} more come. How many {things} are there?
    If I have {a} {things} and find {b} more, how many do I have?
    * {name} has {a} {things} and finds {b} more. How many {things} does {name} have now?
""")
LOST = phrasings("""
    {name} has {a} {things} and loses {b}. How many {things} does {name} have left?
    {name} has {a} {things}. {name} sells {b}. How many {things} are left?
    I have {a} {things} and I lose {b}. How many {things} do I have?
    I have {a} {things}. I give away {b}. How many {things} do I have left?
    {name} has {a} {things} and gives away {b}. How many {things} does {name} have?
    {name} has {a} {things}. {name} loses {b}. How many {things} are left?
    There are {a} {things} and {b} go away. How many {things} are there?
    If I have {a} {things} and sell {b}, how many do I have?
    * {name} has {a} {things} and sells {b}. How many {things} does {name} have left?
""")
LARGER = phrasings("""
    Which one is bigger: {a} or {b}?
    Which is larger, {a} or {b}?
    Which is bigger, {a} or {b}?
    Which number is larger, {a} or {b}?
    What is larger, {a} or {b}?
    Is {a} or {b} larger?
    What is the maximum of {a} and {b}?
    * Which number is bigger: {a} or {b}?
""")
PARITY = phrasings("""
    What is {a}, even or odd?
    Can you say if {a} is even or odd?
    Is {a} even or odd?
    Is {a} odd or even?
    Is the number {a} even or odd?
    Tell me if {a} is even or odd.
    Even or odd: {a}?
    * Would you call {a} even or odd?
""")
COUNT = phrasings("""
    Could you count from {a} to {b}?
    Say the numbers {a} to {b}.
    Count from {a} to {b}.
    Count from {a} to {b}
    Can you count from {a} to {b}?
    Please count from {a} to {b}.
    Write the numbers from {a} to {b}.
    List the numbers from {a} to {b}.
    * Could you count from {a} up to {b}?
    * Say the numbers from {a} to {b}.
""")


class Sum(NamedTuple):
    """`a operator b` is `result`; all of them whole numbers."""

    a: int
    operator: str
    b: int
    result: int

    def __str__(self) -> str:
        return f"{self.a} {self.operator} {self.b} = {self.result}"


def is_held_out(a: int, b: int) -> bool:
    """Whether the pair belongs to the one in twenty that is not trained on."""
    return crc32(f"{a} {b}".encode()) % 20 == 0 and a + b > 12


def arithmetic(draw: Draw) -> Turn:
    """One sum, story or comparison."""
    return draw.weighted(_KINDS if draw.held_out else _TRAINED_KINDS)(draw)


def in_words(number: int) -> str:
    """A number below one hundred in English: 42 is "forty-two"."""
    if number < 20:
        return UNITS[number]
    tens, unit = divmod(number, 10)
    return TENS[tens] + (f"-{UNITS[unit]}" if unit else "")


def steps_of(sum_: Sum) -> str:
    """How a person does it, tens and units apart."""
    if sum_.operator in "+-" and sum_.b >= 10 and sum_.a > 0:
        tens, units = sum_.b // 10 * 10, sum_.b % 10
        between = sum_.a + tens if sum_.operator == "+" else sum_.a - tens
        last = f" {between} {sum_.operator} {units} = {sum_.result}."
        return f"{sum_.a} {sum_.operator} {tens} = {between}." + (last if units else "")
    return f"{sum_}."


def _added(draw: Draw) -> Turn:
    a, b = _operands(draw)
    return _asked(draw, SUM, Sum(a, "+", b, a + b))


def _subtracted(draw: Draw) -> Turn:
    a, b = _operands(draw)
    if a < b and draw.chance(0.9):
        a, b = b, a
    if is_held_out(a, b) != draw.held_out:
        return _subtracted(draw)  # the swap changed the side
    return _asked(draw, DIFFERENCE, Sum(a, "-", b, a - b))


def _multiplied(draw: Draw) -> Turn:
    a, b = draw.number(0, TABLE_LIMIT), draw.number(0, TABLE_LIMIT)
    return _asked(draw, PRODUCT, Sum(a, "×", b, a * b))


def _divided(draw: Draw) -> Turn:
    b, result = draw.number(1, TABLE_LIMIT), draw.number(0, TABLE_LIMIT)
    return _asked(draw, QUOTIENT, Sum(b * result, "/", b, result))


def _asked(draw: Draw, asked: Split[str], sum_: Sum) -> Turn:
    write = in_words if draw.chance(0.2) and sum_.a < 100 else str
    question = draw.phrase(asked, a=write(sum_.a), b=write(sum_.b))
    return _numeric(question, str(sum_), f"I calculate. {steps_of(sum_)}", sum_.result)


def _story(draw: Draw) -> Turn:
    a, b = _operands(draw, limit=20)
    things = draw.of(tables.THINGS) + "s"
    name = name_or_new(draw, tables.NAMES)
    slots = {"a": max(a, b), "b": min(a, b), "things": things.replace("boxs", "boxes"), "name": name}
    if draw.chance(0.5):
        asked, sum_ = BOUGHT, Sum(max(a, b), "+", min(a, b), a + b)
    else:
        asked, sum_ = LOST, Sum(max(a, b), "-", min(a, b), abs(a - b))
    answer = f"{sum_}, so the answer is {sum_.result}."
    return _numeric(draw.phrase(asked, **slots), answer, f"This is a sum. {steps_of(sum_)}", sum_.result)


def _compared(draw: Draw) -> Turn:
    if draw.chance(0.5):
        a = draw.number(0, 99)
        word = "odd" if a % 2 else "even"
        question, thought = draw.phrase(PARITY, a=a), f"The last digit is {a % 10}, so {a} is {word}."
        return Turn(question, f"{a} is {word}.", thought, Expectation("contains", [word]), short=word)
    a, b = draw.some(range(100), 2)
    question, thought = draw.phrase(LARGER, a=a, b=b), f"I compare {a} and {b}. {max(a, b)} is larger."
    answer = f"{max(a, b)} is larger than {min(a, b)}."
    return Turn(question, answer, thought, Expectation("exact", answer), short=str(max(a, b)))


def _counted(draw: Draw) -> Turn:
    a = draw.any([0, 1, 1, 1, draw.number(1, 30)])
    b = a + draw.number(3, 15)
    numbers = ", ".join(map(str, range(a, b + 1)))
    return Turn(
        draw.phrase(COUNT, a=a, b=b), numbers, f"I count from {a} to {b}.", Expectation("exact", numbers)
    )


def _numeric(question: str, answer: str, thought: str, result: int) -> Turn:
    return Turn(question, answer, thought, Expectation("number", result), short=str(result))


def _operands(draw: Draw, limit: int = 99) -> tuple[int, int]:
    """Two numbers below `limit` of this draw's side, small ones more often."""
    while True:
        below = min(limit, draw.any([10, 20, 20, 50, 100]))
        a, b = draw.number(0, below), draw.number(0, below)
        if is_held_out(a, b) == draw.held_out:
            return a, b


_KINDS: dict[Callable[[Draw], Turn], float] = {
    _added: 34,
    _subtracted: 28,
    _multiplied: 16,
    _divided: 5,
    _story: 8,
    _compared: 4,
    _counted: 4,
}
_TRAINED_KINDS = _KINDS | {_story: 16}
