"""Sentences with gaps, and the kinds of values that fill them."""

from __future__ import annotations

from ..split import Split, phrasings

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
COUNTRY_TEXTS = ("country place", phrasings("""
    The capital of {country} is {place}.
    {place} is the capital of {country}.
    {place} is a city in {country}.
    In {country} there is a city called {place}.
    The largest city of {country} is {place}.
    We flew to {place}, {country}.
    I was in {country} and saw {place}.
"""))  # fmt: skip
GATHERINGS: list[tuple[str, Split[str]]] = [
    ("people event day", phrasings("""
        {people} have tickets for the {event} on {day}.
        {people} meet for a {event} this {day}.
        A {event} on {day}: {people} are invited.
        {people} asked if the {event} is still on {day}.
        I will see {people} at a {event} on {day}.
        {people} get ready for the {event} of {day}.
        {people} look forward to a {event} next {day}.
        Will {people} be at the {event}? It is on {day}.
        {event}, {day}, with {people}
        {people} organize a {event} for {day}.
        {people} came late to the {event} on {day}.
        The teacher sends {people} to a {event} on {day}.
        {people} take part in a {event} every {day}.
    """)),
    ("guest event day", phrasings("""
        {guest} is going to the {event} on {day}.
        {guest} has a {event} on {day}.
        On {day}, {guest} must be at the {event}.
        The {event} of {guest} is on {day}.
        {guest} cannot come to the {event} this {day}.
        Did {guest} like the {event} on {day}?
        {guest} planned a {event} for {day}.
        Tell {guest} about the {event} on {day}.
        With {guest} we went to a {event}. It was {day}.
        The {event} starts on {day}, and {guest} is there too.
    """)),
    ("people event place", phrasings("""
        {people} went to a {event} in {place}.
        {people} are at the {event} in {place}.
        In {place} there was a {event} for {people}.
        {people} helped with the {event} in {place}.
        The {event} brought {people} to {place}.
        We met {people} at a {event} in {place}.
        {people} saw the {event} of {place}.
    """)),
    ("people event day place", phrasings("""
        {people} are at the {event} in {place} on {day}.
        On {day}, {people} travel to {place} for a {event}.
        The {event} in {place} on {day} is for {people}.
        {people} will meet in {place} on {day}. It is a {event}.
        {people} moved the {event} in {place} to {day}.
        Next {day} {people} have a {event} in {place}.
    """)),
]  # fmt: skip
TRAINED_TEXTS = [
    *TEXTS,
    *TEXTS[:2] * 2,
    *GATHERINGS,
    *GATHERINGS[:2],
    *[COUNTRY_TEXTS] * 3,
]  # many of events, whose `name` is easily taken for a person's
