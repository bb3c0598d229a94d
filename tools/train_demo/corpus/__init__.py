"""The corpus of the demo model: conversations made from tables, phrasings and a seed.

`conversations(seed, count)` gives the training corpus, `held_out(seed)` the questions that it never holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

from ..conversation import Conversation, Expectation, Message, Turn
from ..split import Draw, phrasings
from . import tables, toolcalls
from .about import about
from .arithmetic import arithmetic
from .copying import copying
from .extraction import extraction
from .facts import fact
from .following import followed
from .invention import made_up_word
from .judging import judging
from .limits import limit
from .records import forced, forced_apart, invented, record, schema_of
from .remembering import remembered
from .smalltalk import refusal, small_talk
from .stories import story

TURNS: dict[str, Callable[[Draw], Turn]] = {
    "small_talk": small_talk,
    "facts": fact,
    "arithmetic": arithmetic,
    "extraction": extraction,
    "copying": copying,
    "judging": judging,
    "stories": story,
    "refusal": refusal,
    "about": about,
    "limits": limit,
    "schemas": record,
    "forced_keys": forced,
    "invented": invented,
}
HELD_OUT_WEIGHTS = {
    "small_talk": 6,
    "facts": 22,
    "arithmetic": 22,
    "extraction": 16,
    "schemas": 22,
    "invented": 2,
    "copying": 16,
    "judging": 3,
    "stories": 1.5,
    "refusal": 6,
    "about": 5,
    "limits": 13,
}
TURN_WEIGHTS = HELD_OUT_WEIGHTS | {
    "arithmetic": 105,
    "facts": 40,
    "extraction": 38,
    "schemas": 86,
    "copying": 72,
    "invented": 6,
    "refusal": 14,
    "about": 8,
    "limits": 26,
    "small_talk": 14,
    "stories": 6,
}
CONVERSATION_WEIGHTS = {
    "single": 72,
    "multi": 3.5,
    "memory": 7,
    "follow_up": 1,
    "one_word": 10,
    "forced_keys": 12,
    "same_tools": 8,
    "tool_call": 2.5,
    "tool_dialogue": 1.2,
    "tool_again": 2.5,
    "two_tool_calls": 0.7,
    "tool_answer": 1.3,
    "tool_declined": 0.8,
    "tool_missing": 1,
}
HELD_OUT_COUNTS = {
    "small_talk": 25,
    "about": 20,
    "facts": 60,
    "follow_up": 10,
    "arithmetic": 40,
    "limits": 40,
    "refusal": 15,
    "extraction": 35,
    "schemas": 40,
    "forced_keys": 15,
    "invented": 5,
    "copying": 25,
    "judging": 10,
    "stories": 10,
    "multi": 15,
    "memory": 20,
    "tool_call": 60,
    "two_tool_calls": 5,
    "tool_answer": 40,
    "tool_dialogue": 10,
    "tool_again": 30,
    "tool_declined": 10,
    "tool_missing": 5,
    "thinking": 30,
    "one_word": 10,
}
HELD_OUT_SEED = 2024
THINKING_SHARE = 0.18
SHORT_ANSWER = phrasings("""
    Answer in one word.
    Answer with one word.
    Give only the answer.
    Reply with a single word.
    Answer with only the result.
    One word answers only.
    * Please answer in one word only.
    * Reply with one word.
""")
SYSTEM_PROMPTS = phrasings("""
    You are a helpful assistant.
    You are a helpful assistant
    You are a helpful, honest assistant.
    You are a helpful AI assistant.
    You are Braid's demo model.
    You are a friendly assistant.
    You are an assistant. Answer the user's questions.
    Be polite.
    Be helpful and friendly.
    Answer the question.
    You are a chatbot.
    You are a kind teacher.
    You help people with small questions.
    Answer politely and clearly.
    You are an expert.
    * You are a useful and polite assistant.
    * You are a good assistant for everyone.
""")
UNDISTURBED = {"small_talk", "facts", "arithmetic", "judging", "refusal"}  # by a word without sense
QUOTING = {"extraction", "schemas", "forced_keys"}  # may begin with a name that the answer repeats
ASIDES = ["Please", "Hey,", "Hi!", "Hello!", "Quick question:", "Okay.", "Now", "So,", "Well,", "Question:"]
AFTERTHOUGHTS = ["Please.", "Thanks!", "Thank you.", "please"]


def conversations(seed: int, count: int) -> Iterator[Conversation]:
    """`count` training conversations, the same ones for the same seed."""
    return islice(chain.from_iterable(groups(seed)), count)


def groups(seed: int) -> Iterator[list[Conversation]]:
    """Endlessly many, of one conversation each or of several that declare the same tools."""
    draw = Draw(seed, rewords=True)
    while True:
        kind = draw.weighted(CONVERSATION_WEIGHTS)
        if kind == "same_tools":
            group = toolcalls.with_the_same_tools(draw, _ordinary)
            prompt = draw.phrase(SYSTEM_PROMPTS) if draw.chance(0.3) else None
            yield [_finish_one_of(draw, conversation, prompt) for conversation in group]
        else:
            yield [_finish(draw, _conversation(draw, kind))]


def held_out(seed: int, known_words: bool = False) -> Iterator[Conversation]:
    """Conversations asked in ways, and about pairs of numbers, that training never sees.

    Names, cities, tools and words are such too, unless `known_words`.
    """
    for skill, count in HELD_OUT_COUNTS.items():
        for index in range(count):
            yield _held_out_item(Draw(f"{seed} {skill} {index}", True, known_words), skill)


def _held_out_item(draw: Draw, skill: str) -> Conversation:
    if skill == "thinking":
        conversation = _single(draw, draw.any(["facts", "arithmetic", "extraction"]))
        conversation.thinking = True
    elif skill == "one_word":
        conversation = _in_one_word(draw, draw.any([fact, arithmetic]))
    else:
        conversation = _conversation(draw, skill)
        if draw.chance(0.3):
            _add_system_prompt(draw, conversation)
    if skill == "forced_keys":
        conversation.schema = schema_of(conversation.expect.value)
    conversation.skill = skill
    return conversation


def _conversation(draw: Draw, kind: str) -> Conversation:
    if kind == "forced_keys" and not draw.held_out and draw.chance(0.5):
        return _forced_by_system_prompt(draw)
    if kind in TURNS:
        return _single(draw, kind)
    if kind == "single":
        return _single(draw, draw.weighted(_weights(draw)))
    if kind == "multi":
        return _several_turns(draw)
    if kind == "memory":
        return _memory(draw)
    if kind == "one_word":
        return _in_one_word(draw, draw.any([fact, arithmetic]))
    if kind == "follow_up":
        return _of_turns("follow_up", followed(draw))
    if kind == "tool_declined":
        return toolcalls.tool_declined(draw, _ordinary(draw))
    make: Callable[[Draw], Conversation] = getattr(toolcalls, kind)
    return make(draw)


def _ordinary(draw: Draw) -> Turn:
    return TURNS[draw.any(["facts", "arithmetic", "small_talk"])](draw)


def _finish_one_of(draw: Draw, conversation: Conversation, prompt: str | None) -> Conversation:
    """As `_finish`, for one of a group, which shares what stands before the tools."""
    if prompt:
        conversation.messages.insert(0, {"role": "system", "content": prompt})
    conversation.thinking = draw.chance(THINKING_SHARE)
    return conversation


def _finish(draw: Draw, conversation: Conversation) -> Conversation:
    """Adds what may accompany any training conversation: carelessness, a system prompt, thinking."""
    if draw.chance(0.25) and conversation.skill in TURNS and conversation.skill != "copying":
        _make_casual(draw, conversation.messages[0], starts_plainly=conversation.skill not in QUOTING)
    if conversation.skill in UNDISTURBED and draw.chance(0.12):
        _add_strange_word(draw, conversation.messages[0])
    if conversation.messages[0]["role"] != "system" and draw.chance(0.3):
        _add_system_prompt(draw, conversation)
    conversation.thinking = draw.chance(THINKING_SHARE)
    return conversation


def _single(draw: Draw, skill: str) -> Conversation:
    turn = TURNS[skill](draw)
    if turn.short and draw.chance(0.15) and not draw.held_out:
        return _in_one_word(draw, lambda _: turn)
    return _of_turns(skill, [turn])


def _forced_by_system_prompt(draw: Draw) -> Conversation:
    task, turn = forced_apart(draw)
    conversation = _of_turns("forced_keys", [turn])
    conversation.messages.insert(0, {"role": "system", "content": task})
    return conversation


def _in_one_word(draw: Draw, make: Callable[[Draw], Turn]) -> Conversation:
    turn = make(draw)
    while turn.short is None:
        turn = make(draw)
    conversation = _of_turns("one_word", [turn])
    conversation.messages[-1]["content"] = turn.short
    if turn.expect.kind == "exact":
        conversation.expect = Expectation("exact", turn.short)
    conversation.messages.insert(0, {"role": "system", "content": draw.phrase(SHORT_ANSWER)})
    return conversation


def _several_turns(draw: Draw) -> Conversation:
    skills = [draw.weighted(_weights(draw)) for _ in range(draw.number(2, 4))]
    return _of_turns("multi", [TURNS[skill](draw) for skill in skills])


def _memory(draw: Draw) -> Conversation:
    """Something told, perhaps other turns or a second thing told between, and the question for it."""
    told, asked = remembered(draw)
    between = [TURNS[draw.weighted(_weights(draw))](draw) for _ in range(draw.any([0, 0, 1, 1, 2]))]
    return _of_turns("memory", [told, *between, asked])


def _weights(draw: Draw) -> dict[str, float]:
    return HELD_OUT_WEIGHTS if draw.held_out else TURN_WEIGHTS


def _of_turns(skill: str, turns: list[Turn]) -> Conversation:
    messages = [message for turn in turns for message in _messages_of(turn)]
    return Conversation(skill, messages, turns[-1].expect)


def _messages_of(turn: Turn) -> list[Message]:
    answer = {"role": "assistant", "content": turn.answer, "reasoning_content": turn.reasoning}
    return [{"role": "user", "content": turn.question}, answer]


def _add_system_prompt(draw: Draw, conversation: Conversation) -> None:
    conversation.messages.insert(0, {"role": "system", "content": draw.phrase(SYSTEM_PROMPTS)})


def _add_strange_word(draw: Draw, message: Message) -> None:
    """Puts a word without sense into the question: a reply should hang on the words that matter."""
    parts = message["content"].split(" ")
    strange = made_up_word(draw) if draw.chance(0.5) else draw.of(tables.COMMON_WORDS)
    parts.insert(draw.number(0, len(parts) - 1), strange)
    message["content"] = " ".join(parts)


def _make_casual(draw: Draw, message: Message, *, starts_plainly: bool) -> None:
    """Writes the question as a hurried person would: an aside before or after it, no last mark.

    The first letter may become small only where it `starts_plainly`, not with a name to be copied.
    """
    text = message["content"]
    kind = draw.number(1, 4)
    if kind == 1:
        text = f"{draw.any(ASIDES)} {text}"
    elif kind == 2:
        text = f"{text} {draw.any(AFTERTHOUGHTS)}"
    elif kind == 3 and text[-1] in ".?":
        text = text[:-1]
    elif kind == 4 and starts_plainly:
        text = text[0].lower() + text[1:]
    message["content"] = text
