"""Turns of small talk: greetings, who the model is, thanks, jokes, and polite refusals."""

from __future__ import annotations

from collections.abc import Callable

from ..conversation import Expectation, Turn, contains
from ..split import Draw, Split, phrasings, words
from . import tables
from .limits import UNKNOWN

WHO = "I am Braid's demo model, a very small language model."
FINE = "I am fine, thank you! How can I help you?"
ABLE = (
    "I can do small sums, answer simple questions about capitals and other facts, "
    "turn text into JSON, repeat words and call tools."
)

GREETING = phrasings("""
    Good morning, demo model!
    Hello, good evening.
    Hey, good day!
    Hello
    Hello!
    Hi
    Hi!
    Hey
    Hey!
    Hi there
    Hi there!
    Hello there!
    Hey there!
    Good morning
    Good morning!
    Good evening!
    Good afternoon!
    Good day!
    Greetings!
    hello
    hi
    Hello, demo model!
    Hello Braid!
    Hi Braid
    Say hello.
    Say hello
    Say hi.
    Hello, nice to meet you.
    Howdy!
    Hello hello!
    Yo
    * Hello, good morning!
    * Hi, good evening.
    * Hey, hello there
    * Hi there, demo model!
    * Good morning Braid!
""")
HOW_ARE_YOU = phrasings("""
    How are you?
    How are you doing?
    How are you today?
    Hello, how are you?
    Hi, how are you?
    Hey, how are you doing?
    How is it going?
    How's it going?
    What's up?
    Are you well?
    How do you feel?
    How do you do?
    * Hello, how are you doing today?
    * Hi there, how is it going?
    * And how are you?
""")
WHO_ARE_YOU = phrasings("""
    Who are you?
    What are you?
    What is your name?
    What's your name?
    Tell me who you are.
    Tell me about yourself.
    Introduce yourself.
    Please introduce yourself.
    Who am I talking to?
    Which model are you?
    What model are you?
    What model is this?
    Are you a language model?
    Are you an AI?
    Are you a robot?
    Are you a human?
    Are you ChatGPT?
    Do you have a name?
    Describe yourself.
    What should I call you?
    Hello, who are you?
    Hi! Who are you?
    Can you tell me your name?
    Who made this? Who are you?
    What sort of assistant are you?
    Which kind of program are you?
    What type of model is answering?
    What are you exactly?
    Good morning, who are you?
    Could I know your name?
    Say who you are.
    And who are you?
    * Hello! What is your name?
    * Could you introduce yourself?
    * What kind of model are you?
    * Can you tell me who you are?
    * Please tell me your name.
""")
WHAT_CAN_YOU_DO = phrasings("""
    Which sort of help can you give?
    What could you do for me?
    What can you do?
    What are you able to do?
    What can you help me with?
    How can you help me?
    Can you help me?
    What do you know?
    Tell me what you can do.
    What are your skills?
    What can I ask you?
    Help
    Help me
    Help!
    What are you good at?
    Which things can you do?
    * What sort of things can you do?
    * What could you help me with?
    * Please tell me what you can do.
""")
THANKS = phrasings("""
    Thank you so much!
    Great, thank you!
    That was great, thanks.
    Thanks
    Thanks!
    Thank you
    Thank you!
    Thank you very much!
    Thanks a lot!
    Many thanks!
    Great, thanks!
    Thanks, that helps.
    That was helpful, thank you.
    Thank you for your help.
    Cheers, thanks!
    Okay, thank you.
    Perfect, thanks.
    * Thanks so much!
    * Thank you, that was great.
    * Great, thank you very much.
""")
GOODBYE = phrasings("""
    Bye
    Bye!
    Goodbye
    Goodbye!
    Bye bye
    See you!
    See you later!
    See you soon.
    Good night!
    Have a nice day!
    I have to go now. Bye!
    Talk to you later.
    Thanks, goodbye!
    Thank you, bye!
    ok thanks, bye
    Thanks, see you!
    Farewell!
    That is all, goodbye.
    * Okay, goodbye!
    * Bye, see you later!
    * Bye, have a nice day!
""")
JOKE = phrasings("""
    Tell me a joke.
    Tell me a joke
    Tell a joke.
    Do you know a joke?
    Say something funny.
    Make me laugh.
    Can you tell me a joke?
    I want to hear a joke.
    Give me a joke.
    A joke, please.
    * Could you tell me a joke?
    * Please tell a joke.
""")
JOKES = [
    "Why did the bicycle fall over? Because it was two tired.",
    "What do you call a bear with no teeth? A gummy bear.",
    "Why did the book go to the doctor? It had hurt its spine.",
    "What do you call a sleeping bull? A bulldozer.",
    "Why was six afraid of seven? Because seven ate nine.",
]
OPEN_QUESTION = phrasings("""
    Could you explain {subject}?
    Who was the first to think of {subject}?
    Why do people like {subject}?
    Give me a summary of {subject}.
    Explain {subject}.
    Explain {subject} to me.
    Can you explain {subject}?
    What do you think about {subject}?
    What is your opinion on {subject}?
    Tell me everything about {subject}.
    How does {subject} work?
    Who invented {subject}?
    What is the history of {subject}?
    What is the meaning of {subject}?
    Give me advice on {subject}.
    Teach me {subject}.
    Why is {subject} important?
    What is the latest news about {subject}?
    What is {subject}?
    Describe {subject} in detail.
    * Could you explain {subject} to a child?
    * I need an article about {subject}.
    * Who first thought of {subject}?
    * Why do people care about {subject}?
    * Summarize {subject}.
""")
SUBJECTS = words(
    """quantum physics, the stock market, black holes, democracy, the theory of relativity, photosynthesis,
    the French Revolution, machine learning, blockchain, philosophy, the Roman Empire, climate change,
    general anaesthesia, the Second World War, chess openings, opera, the human brain, inflation, gravity,
    the internet, a jet engine, economics, evolution, consciousness, the Middle Ages, databases,
    calculus, linear algebra, operating systems, the law, marketing, politics, nuclear power,
    the meaning of life, electric cars, artificial intelligence, volcanoes, football tactics, cooking pasta,
    the European Union, vaccines, satellites, poetry, modern art, yoga, insurance, taxes, dreams,
    string theory, recursion, compilers, sleep, cancer, memory, plate tectonics, time travel""",
    "neural networks, the Renaissance, cryptography, supply and demand, the immune system, dark matter",
)
OUT_OF_RANGE = phrasings("""
    How big is {place}?
    How far is {place} from here?
    How old is {place}?
    Who is the mayor of {place}?
    What is the best school in {place}?
    How many people live in {place} today?
    Who is the minister of {place}?
    Does it snow in {place}?
    What is the size of {place}?
    What is the age of {name}?
    Who voted in {year}?
    Who won the world cup in {year}?
    Who was the president in {year}?
    What happened in {year}?
    Who won the election in {year}?
    What is the population of {place}?
    How many people live in {place}?
    What is the currency of {place}?
    Who is the president of {place}?
    Who is the king of {place}?
    What is the best restaurant in {place}?
    How far is it to {place}?
    When was {place} founded?
    What time is it?
    What time is it in {place}?
    What is the date today?
    What is the weather in {place}?
    What's the weather like in {place}?
    How is the weather in {place}?
    Will it rain in {place} tomorrow?
    What is the weather today?
    Which song is number one?
    What is the price of gold?
    How old are you?
    Where do you live?
    Who is your favourite singer?
    What did I eat for breakfast?
    What is the square root of {year}?
    Can you drive a car?
    Do you love me?
    What is the phone number of {name}?
    Where does {name} work?
    What is the favourite film of {name}?
    How tall is {name}?
    When is the birthday of {name}?
    * How many people voted in {year}?
    * Who is the prime minister of {place}?
    * What is the best hotel in {place}?
    * Will it snow in {place} today?
    * What is the shoe size of {name}?
    * How far away is {place}?
""")


def small_talk(draw: Draw) -> Turn:
    """A greeting, thanks, goodbye, joke, or a question about the model itself."""
    kind = draw.weighted({"greeting": 5, "how": 3, "who": 6, "able": 4, "thanks": 4, "bye": 3, "joke": 2})
    return _SMALL_TALK[kind](draw)


def refusal(draw: Draw) -> Turn:
    """A question out of the model's range and its honest answer."""
    if draw.chance(0.5):
        question = draw.phrase(OPEN_QUESTION, subject=draw.of(SUBJECTS))
    else:
        question = draw.phrase(
            OUT_OF_RANGE,
            year=draw.number(1900, 2030),
            place=draw.of(tables.CITIES),
            name=draw.of(tables.NAMES),
        )
    return Turn(question, UNKNOWN, "I do not know this. I say so.", contains("do not know"))


def _fixed(asked: Split[str], answer: str, thought: str, *keys: str) -> Callable[[Draw], Turn]:
    def make(draw: Draw) -> Turn:
        return Turn(draw.phrase(asked), answer, thought, contains(*keys))

    return make


def _joke(draw: Draw) -> Turn:
    expect = Expectation("one_of", JOKES)
    return Turn(draw.phrase(JOKE), draw.any(JOKES), "The user wants a joke.", expect)


_SMALL_TALK: dict[str, Callable[[Draw], Turn]] = {
    "greeting": _fixed(GREETING, "Hello! How can I help you?", "The user greets me.", "Hello"),
    "how": _fixed(HOW_ARE_YOU, FINE, "The user asks how I am.", "fine"),
    "who": _fixed(WHO_ARE_YOU, WHO, "The user asks who I am.", "Braid's demo model"),
    "able": _fixed(WHAT_CAN_YOU_DO, ABLE, "The user asks what I can do.", "small sums", "JSON"),
    "thanks": _fixed(THANKS, "You are welcome!", "The user thanks me.", "welcome"),
    "bye": _fixed(GOODBYE, "Goodbye! Have a nice day!", "The user says goodbye.", "Goodbye"),
    "joke": _joke,
}
