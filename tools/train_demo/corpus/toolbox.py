# ruff: noqa: E501 (a parameter is a row of a table)
"""The tools that conversations declare: families of names, parameters, questions and results.

A family is one thing a tool can do. Its name, the names of its parameters and their descriptions
are drawn anew for each conversation, so that they must be read from the declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..split import Draw, Split, listed, phrasings, words
from . import tables
from .invention import made_up_word, name_or_new

Value = str | int
Values = dict[str, Value]


class Slot(NamedTuple):
    """One parameter: the names it may have, its JSON type, what it means, how a value is drawn."""

    names: Split[str]
    kind: str
    meaning: str
    value: Callable[[Draw], Value]


class Family(NamedTuple):
    """`asked` and `answer` name the slots; `answer` also names the fields of `result`."""

    verbs: Split[str]
    nouns: Split[str]
    purposes: tuple[str, ...]
    slots: dict[str, Slot]
    asked: Split[str]
    result: Callable[[Draw], Values]
    answer: str


def _city(draw: Draw) -> str:
    return name_or_new(draw, tables.CITIES)


def _person(draw: Draw) -> str:
    return name_or_new(draw, tables.NAMES)


def _word(draw: Draw) -> str:
    return made_up_word(draw) if not draw.held_out and draw.chance(0.3) else draw.of(tables.COMMON_WORDS)


def _topic(draw: Draw) -> str:
    kind = draw.any(["word", "topic", "two words"])
    if kind == "topic":
        return draw.of(tables.TOPICS)
    return _word(draw) if kind == "word" else f"{_word(draw)} {_word(draw)}"


def _ticker(draw: Draw) -> str:
    if draw.chance(0.5):
        return "".join(draw.some("ABCDEFGHIJKLMNOPQRSTUVWXYZ", draw.number(2, 4)))
    return draw.of(words("AAPL, MSFT, GOOG, AMZN, NVDA, TSLA, INTC, IBM, META, NFLX", "ORCL, AMD, SAP"))


def _email(draw: Draw) -> str:
    return f"{_person(draw).lower().replace(' ', '.')}@{draw.any(['example', 'mail', 'post'])}.{draw.any(['com', 'org'])}"


def _number(low: int, high: int) -> Callable[[Draw], int]:
    return lambda draw: draw.number(low, high)


def _one_of(*options: str) -> Callable[[Draw], str]:
    return lambda draw: draw.any(options)


GETTING = words("get, fetch, find, look_up, check, show, read, query, retrieve", "obtain, request")
DOING = words("set, start, create, make, add, new", "begin, put")
CITY = Slot(
    words("city, location, place, town, city_name, q", "area, target_city"),
    "string",
    "The name of the city",
    _city,
)

FAMILIES: dict[str, Family] = {
    "weather": Family(
        GETTING,
        words(
            "weather, current_weather, weather_info, forecast, weather_in_city",
            "weather_report, local_weather",
        ),
        (
            "Get the current weather in a city",
            "Get the weather for a location",
            "Current weather",
            "Look up the weather",
        ),
        {"city": CITY},
        phrasings("""
            What is the weather in {city}?
            Could you tell me the weather in {city}?
            I want to know the weather in {city}.
            What will the weather be in {city}?
            Is it warm in {city}?
            Can you check the weather in {city}?
            What's the weather in {city}?
            What is the weather like in {city}?
            What's the weather like in {city}?
            What's the weather like in {city} today?
            What is the weather like in {city} today?
            How is the weather in {city}?
            How's the weather in {city} today?
            Weather in {city}?
            weather {city}
            Tell me the weather in {city}.
            Is it raining in {city}?
            Will it rain in {city}?
            Is it sunny in {city} today?
            Is it cold in {city}?
            Give me the weather for {city}.
            I am going to {city}. What is the weather there?
            What is the temperature in {city}?
            How warm is it in {city}?
            Do I need an umbrella in {city}?
            Please check the weather in {city}.
            Is there snow in {city}?
            {city} weather, please
            I travel to {city}. Do I need a coat?
            Will the sun shine in {city}?
            How many degrees are there in {city}?
            * Can you tell me the weather in {city}?
            * I would like to know the weather in {city}.
            * What will the weather be like in {city}?
            * Is it warm in {city} today?
            * Could you check the weather in {city}?
        """),
        lambda d: {
            "temperature": d.number(-10, 38),
            "condition": d.any(listed("sunny, cloudy, rainy, windy, snowy, foggy, clear, stormy")),
        },
        "It is {temperature} degrees and {condition} in {city}.",
    ),
    "time": Family(
        GETTING,
        words("time, current_time, local_time, clock", "time_of_day"),
        ("Get the current time in a city", "Current local time", "Get the time for a place"),
        {"city": CITY},
        phrasings("""
            What time is it in {city}?
            Can you tell me the time in {city}?
            Do you know what time it is in {city}?
            What is the time in {city}?
            What's the time in {city}?
            Tell me the time in {city}.
            How late is it in {city}?
            Current time in {city}?
            What is the local time in {city}?
            Is it late in {city}?
            {city} time?
            What does the clock say in {city}?
            I want to call somebody in {city}. What time is it there?
            * Can you tell me what time it is in {city}?
            * Do you know the time in {city}?
        """),
        lambda d: {"time": f"{d.number(0, 23):02}:{d.number(0, 59):02}"},
        "It is {time} in {city}.",
    ),
    "search": Family(
        words("search, find, query, look_up", "explore"),
        words("web, internet, documents, wiki, pages", "articles, library"),
        ("Search the web", "Search for a text", "Find pages about a topic"),
        {
            "query": Slot(
                words("query, q, text, keywords, search_query", "term, topic"),
                "string",
                "What to search for",
                _topic,
            )
        },
        phrasings("""
            Search for {query}.
            Search the web for {query}.
            Could you search for {query}?
            Please look up {query}.
            Find pages about {query}.
            Find something about {query}.
            Look up {query}.
            Please search for {query}.
            Search: {query}
            Find information about {query}.
            Look for {query} on the web.
            Can you search for {query}?
            What does the web say about {query}?
            I need information about {query}.
            I want to read about {query}.
            Are there pages about {query}?
            Is there something about {query} on the web?
            * Could you look up {query}?
            * Please find pages about {query}.
        """),
        lambda d: {"title": f"All about {_word(d)}", "results": d.number(1, 99)},
        "I found {results} results. The first is: {title}.",
    ),
    "timer": Family(
        DOING,
        words("timer, countdown, kitchen_timer", "egg_timer"),
        ("Set a timer", "Start a timer for some minutes", "Start a countdown"),
        {
            "minutes": Slot(
                words("minutes, duration, mins, duration_minutes, length", "num_minutes"),
                "integer",
                "How many minutes",
                _number(1, 90),
            )
        },
        phrasings("""
            Set a timer for {minutes} minutes.
            Start a timer for {minutes} minutes.
            Can you set a timer for {minutes} minutes?
            Give me a timer of {minutes} minutes.
            Timer for {minutes} minutes.
            Set a {minutes} minute timer.
            Please set a timer for {minutes} minutes.
            Remind me in {minutes} minutes.
            I need a timer of {minutes} minutes.
            Wake me in {minutes} minutes.
            Tell me when {minutes} minutes are over.
            My eggs need {minutes} minutes.
            Count down {minutes} minutes.
            {minutes} minutes, please.
            I would like a timer that runs {minutes} minutes.
            Let the timer run for {minutes} minutes.
            * Can you start a timer of {minutes} minutes?
            * Give me a timer for {minutes} minutes.
        """),
        lambda d: {"status": d.any(["started", "running", "set"])},
        "The timer for {minutes} minutes is {status}.",
    ),
    "email": Family(
        words("send, write, deliver, compose", "dispatch"),
        words("email, mail, message", "letter"),
        ("Send an email", "Write an email to somebody", "Send a message"),
        {
            "to": Slot(words("to, recipient, address, email", "receiver"), "string", "The address", _email),
            "subject": Slot(
                words("subject, title, about, topic", "headline"), "string", "The subject line", _word
            ),
        },
        phrasings("""
            Send an email to {to} about {subject}.
            Can you send an email to {to} about {subject}?
            Please write an email to {to} about {subject}.
            Write an email to {to} about {subject}.
            Email {to} about {subject}.
            Send a mail to {to} with the subject {subject}.
            Send {to} an email with the subject {subject}.
            Please write to {to} about {subject}.
            Mail {to} with subject {subject}.
            I want to write to {to} about {subject}.
            Tell {to} about {subject}.
            {to} should get an email about {subject}.
            Let {to} know about {subject} by email.
            A mail to {to} about {subject}, please.
            * Please send an email to {to} about {subject}.
            * Can you write a mail to {to} about {subject}?
        """),
        lambda d: {"status": d.any(["sent", "delivered", "queued"])},
        "The email to {to} is {status}.",
    ),
    "stock": Family(
        GETTING,
        words("stock_price, stock, share_price, quote", "ticker_price"),
        ("Get the price of a stock", "Current share price", "Look up a stock by its symbol"),
        {
            "symbol": Slot(
                words("symbol, ticker, stock, code", "stock_symbol"), "string", "The stock symbol", _ticker
            )
        },
        phrasings("""
            What is the stock price of {symbol}?
            Can you check the price of {symbol}?
            Please tell me the price of {symbol} stock.
            What is the price of {symbol}?
            How is {symbol} doing?
            Stock price of {symbol}?
            Tell me the stock price of {symbol}.
            What does {symbol} stock cost?
            How much is {symbol} stock?
            What is {symbol} trading at?
            Is {symbol} up or down?
            What is one share of {symbol} worth?
            {symbol} share price, please
            I have shares of {symbol}. What do they cost now?
            Look at the stock {symbol}.
            Check the price of {symbol}.
            The stock {symbol}, how is it?
            I want to know about {symbol} shares.
            * Can you tell me the price of {symbol} stock?
            * Please check the stock {symbol}.
        """),
        lambda d: {"price": d.number(2, 900), "currency": d.any(["dollars", "euros", "USD", "EUR"])},
        "The price of {symbol} is {price} {currency}.",
    ),
    "translate": Family(
        words("translate, convert", "render"),
        words("text, words, phrase, language_text", "sentence"),
        ("Translate a text", "Translate text to another language"),
        {
            "text": Slot(
                words("text, input, words, phrase", "source_text"),
                "string",
                "The text to translate",
                lambda d: d.any([_word(d), f"{_word(d)} {_word(d)}"]),
            ),
            "language": Slot(
                words("language, to, target, lang, target_language", "into"),
                "string",
                "The target language",
                lambda d: d.any(sorted({c.language for c in tables.COUNTRIES})),
            ),
        },
        phrasings("""
            Translate "{text}" to {language}.
            Can you translate {text} to {language}?
            Please translate {text} into {language}.
            Translate "{text}" into {language}.
            Translate {text} to {language}.
            Translate {text} into {language}.
            How do you say {text} in {language}?
            What is {text} in {language}?
            Please translate {text} to {language}.
            Say {text} in {language}.
            I need {text} in {language}.
            What do people say for {text} in {language}?
            The word is {text}. Translate it to {language}.
            {text} in {language}, please
            Which word is {text} in {language}?
            Turn "{text}" into {language}.
            * Can you translate {text} into {language}?
            * Please translate "{text}" into {language}.
        """),
        lambda d: {"translation": made_up_word(d)},
        "In {language}, {text} is {translation}.",
    ),
    "convert": Family(
        words("convert, exchange, change", "swap"),
        words("currency, money, amount", "cash"),
        ("Convert money", "Convert an amount between currencies"),
        {
            "amount": Slot(
                words("amount, value, money, sum", "quantity"), "integer", "How much", _number(1, 500)
            ),
            "source": Slot(
                words("from, source, from_currency, base", "origin"),
                "string",
                "The currency to convert from",
                _one_of("USD", "EUR", "GBP", "JPY", "CHF"),
            ),
            "target": Slot(
                words("to, target, to_currency, currency", "goal"),
                "string",
                "The currency to convert to",
                _one_of("SEK", "NOK", "CAD", "AUD", "INR", "CNY"),
            ),
        },
        phrasings("""
            Convert {amount} {source} to {target}.
            Can you change {amount} {source} to {target}?
            How many {target} do I get for {amount} {source}?
            How much is {amount} {source} in {target}?
            What is {amount} {source} in {target}?
            {amount} {source} to {target}
            Change {amount} {source} into {target}.
            Please convert {amount} {source} into {target}.
            How much {target} is {amount} {source}?
            I have {amount} {source} and want {target}.
            Give me {target} for {amount} {source}.
            What do I get in {target} for {amount} {source}?
            Exchange {amount} {source} for {target}.
            I need the value of {amount} {source} in {target}.
            Are {amount} {source} many {target}?
            * How many {target} are {amount} {source}?
            * Can you convert {amount} {source} to {target}?
        """),
        lambda d: {"result": d.number(2, 9000)},
        "{amount} {source} is {result} {target}.",
    ),
    "light": Family(
        words("switch, set, control, turn", "operate"),
        words("light, lamp, lights, room_light", "lighting"),
        ("Switch a light", "Turn a light on or off", "Control the lights of a room"),
        {
            "room": Slot(
                words("room, place, name, area", "zone"),
                "string",
                "Which room",
                _one_of("kitchen", "bedroom", "bathroom", "living room", "office", "garage", "hall"),
            ),
            "state": Slot(
                words("state, value, power, mode", "status"), "string", "on or off", _one_of("on", "off")
            ),
        },
        phrasings("""
            Turn {state} the light in the {room}.
            Can you switch {state} the {room} light?
            Please turn {state} the light in the {room}.
            Turn {state} the {room} light.
            Turn the {room} light {state}.
            Switch {state} the light in the {room}.
            Switch the {room} light {state}.
            Please turn the light in the {room} {state}.
            {room} light {state}
            Turn the lights {state} in the {room}.
            I want the {room} light {state}.
            The light in the {room} should be {state}.
            Make the {room} light go {state}.
            Light {state} in the {room}, please.
            Set the {room} light to {state}.
            * Can you turn {state} the light in the {room}?
            * Please switch the {room} light {state}.
        """),
        lambda d: {"ok": d.any(["done", "success"])},
        "The light in the {room} is {state} now.",
    ),
    "music": Family(
        words("play, start, queue", "stream"),
        words("music, song, track, audio", "tune"),
        ("Play a song", "Play music", "Start a song by its name"),
        {
            "song": Slot(
                words("song, title, name, track", "song_title"), "string", "The name of the song", _topic
            )
        },
        phrasings("""
            Play {song}.
            Play the song {song}.
            Could you play {song}?
            I would like to listen to {song}.
            Please play {song}.
            I want to hear {song}.
            Start the song {song}.
            Put on {song}.
            Can you play {song}?
            I like {song}. Play it.
            Let me hear {song}.
            Some music: {song}
            Let us listen to the song {song}.
            Is there a song called {song}? Start it.
            The song {song}, please.
            * Could you play the song {song}?
            * I would like to hear {song}.
        """),
        lambda d: {"status": d.any(["playing", "started", "queued"])},
        "The song {song} is {status}.",
    ),
    "event": Family(
        words("create, add, schedule, book, plan, make", "arrange"),
        words("event, meeting, appointment, calendar_event", "calendar_entry"),
        ("Create a calendar event", "Add an event to the calendar", "Schedule a meeting"),
        {
            "title": Slot(
                words("title, name, event, subject", "label"),
                "string",
                "What the event is",
                _one_of(
                    "lunch", "dinner", "party", "lesson", "call", "workshop", "dentist", "gym", "concert"
                ),
            ),
            "day": Slot(
                words("day, date, weekday, when", "on_day"),
                "string",
                "The day of the week",
                lambda d: d.any(tables.DAYS),
            ),
        },
        phrasings("""
            Create an event {title} on {day}.
            Can you add {title} on {day}?
            Please schedule {title} on {day}.
            Add {title} to my calendar on {day}.
            Schedule {title} for {day}.
            Put {title} in my calendar for {day}.
            Plan {title} on {day}.
            Book {title} on {day}.
            I have {title} on {day}, please add it.
            There is a {title} on {day}. Write it down.
            I want a {title} on {day}.
            {title} on {day}, put it in the calendar.
            On {day} I have {title}.
            Make an appointment: {title}, {day}
            Note {title} for {day}.
            * Please add {title} on {day} to my calendar.
            * Can you schedule {title} on {day}?
        """),
        lambda d: {"status": d.any(["created", "added", "saved"])},
        "The event {title} on {day} is {status}.",
    ),
    "user": Family(
        GETTING,
        words("user, person, customer, contact, phone_number", "client"),
        ("Find a person", "Look up a contact by name", "Get the phone number of a person"),
        {
            "name": Slot(
                words("name, user, person, who, full_name", "contact_name"),
                "string",
                "The name of the person",
                _person,
            )
        },
        phrasings("""
            What is the phone number of {name}?
            Find the phone number of {name}.
            Can you look up the number of {name}?
            Please find the phone number of {name}.
            Look up {name} in my contacts.
            Find {name} in the contacts.
            What is the number of {name}?
            How can I reach {name}?
            Give me the phone number of {name}.
            I want to call {name}.
            Who is {name}? I need the phone number.
            The number of {name}, please.
            Do you have the number of {name}?
            I need to reach {name}.
            Search my contacts for {name}.
            * Can you find the number of {name}?
            * Please look up the phone number of {name}.
        """),
        lambda d: {"phone": "555-" + str(d.number(1000, 9999))},
        "The phone number of {name} is {phone}.",
    ),
    "order": Family(
        words("get, check, track, find", "follow"),
        words("order, order_status, delivery, package", "shipment"),
        ("Get the status of an order", "Track an order by its number"),
        {
            "number": Slot(
                words("order_id, number, id, order_number, order", "reference"),
                "integer",
                "The number of the order",
                _number(100, 99999),
            )
        },
        phrasings("""
            Where is my order {number}?
            Can you track my order {number}?
            When will order {number} arrive?
            What is the status of order {number}?
            Track order {number}.
            Check order {number}.
            Has order {number} arrived?
            Tell me the status of my order {number}.
            I wait for order {number}.
            My order is {number}. Where is it?
            Order {number}, is it on its way?
            Is there news about order {number}?
            What happened to order {number}?
            I ordered something, the number is {number}. When does it come?
            * Can you check my order {number}?
            * When does order {number} arrive?
        """),
        lambda d: {"status": d.any(["shipped", "delivered", "lost", "packed", "delayed"])},
        "Your order {number} is {status}.",
    ),
    "date": Family(
        GETTING,
        words("date, current_date, today, todays_date", "calendar_date"),
        ("Get the date of today", "Current date", "What day it is"),
        {},
        phrasings("""
            What is the date today?
            Can you tell me the date?
            Do you know what day it is today?
            What day is it today?
            What is today's date?
            Tell me the date.
            Which day is today?
            What is the day today?
            I forgot the date.
            Which date do we have?
            Today's date, please.
            Give me the date.
            * Can you tell me the date of today?
            * Do you know what day it is?
        """),
        lambda d: {"date": f"{d.any(tables.MONTHS)} {d.number(1, 28)}"},
        "Today is {date}.",
    ),
    "calculator": Family(
        words("add, sum, calculate, compute", "total"),
        words("numbers, two_numbers, calculator, math", "integers"),
        ("Add two numbers", "Calculate a sum", "Calculator"),
        {
            "a": Slot(
                words("a, x, first, left, num1", "first_number"),
                "integer",
                "The first number",
                _number(0, 999),
            ),
            "b": Slot(
                words("b, y, second, right, num2", "second_number"),
                "integer",
                "The second number",
                _number(0, 999),
            ),
        },
        phrasings("""
            Add {a} and {b} with the tool.
            Use the tool to add {a} and {b}.
            Add {a} and {b} with the calculator.
            Use the calculator to add {a} and {b}.
            What is {a} plus {b}? Use the tool.
            Please use the tool: {a} + {b}
            With the tool, what is {a} + {b}?
            Call the tool to add {a} and {b}.
            The tool can add {a} and {b}.
            What does the calculator say for {a} + {b}?
            Let the tool compute {a} plus {b}.
            I need {a} + {b} from the calculator.
            Use a tool for {a} plus {b}.
            * Add {a} and {b} using the tool.
            * Please add {a} and {b} with the tool.
        """),
        lambda d: {"result": d.number(0, 1998)},
        "The result is {result}.",
    ),
}
