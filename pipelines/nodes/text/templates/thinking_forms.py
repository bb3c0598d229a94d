"""Finds out how a chat template takes how much a model is to reason, by rendering a question with it.

Requests say it by `enable_thinking` and by `reasoning_effort`, one of `LEVELS`.  Templates have other names
for both, and some of the levels: some refuse the others, or write any word into the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Render = Callable[[Mapping[str, Any]], str]
"""Variables → the prompt of a question; "" where the template refuses them."""

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
NONE, MEDIUM = LEVELS[0], LEVELS[3]
SOME = LEVELS[1:]
USUAL = ("low", "medium", "high")
"""The levels of a model whose template writes any word into the prompt (gpt-oss)."""
EFFORTS = ("reasoning_effort", "thinking_effort", "reasoning_strength")
"""Variables that hold a level."""
OFF_WORDS = (NONE, "no_think")
"""Words of templates for the level of no reasoning."""
SWITCHES: Mapping[str, tuple[Any, Any]] = {
    "enable_thinking": (False, True),
    "thinking": (False, True),
    "reasoning": (False, True),
    "thinking_mode": ("disabled", "enabled"),
    "thinking_budget": (0, None),
}
"""Variables that switch reasoning off and on, with what they hold for it; None: they are left out."""
SAME = ("enable_thinking", "thinking")
"""Variables of which requests have one; many templates read the other alone."""
UNKNOWN = "zephyrine"
"""A word that no template has."""


@dataclass(frozen=True)
class ThinkingForms:
    """The variables of a template that say how much the model reasons.

    `switches` are names in `SWITCHES`.  `efforts` are names in `EFFORTS`, each with what it holds for each of
    `LEVELS`; None: it is left out.  `level_switches`: only by a level is reasoning switched off.
    `starts_off`: without one it is off.
    """

    switches: tuple[str, ...] = ()
    efforts: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    level_switches: bool = False
    starts_off: bool = False

    def variables(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The variables of a request as the template takes them; what is none of these stays as it is."""
        if not (self.switches or self.efforts):
            return dict(kwargs)
        level = next((kwargs[name] for name in EFFORTS if kwargs.get(name) in LEVELS), None)
        thinks = next((kwargs[name] for name in SAME if isinstance(kwargs.get(name), bool)), None)
        if thinks is None and level == NONE:
            thinks = False
        taken = {**self._switched(thinks), **kwargs}
        for name, words in self.efforts.items():
            wanted = kwargs.get(name, level)
            if self.level_switches:
                wanted = self._level(wanted, thinks)
            if wanted in LEVELS:
                taken[name] = words[wanted]
                if taken[name] is None:
                    del taken[name]
        return taken

    def notes(self) -> Iterator[str]:
        """What a person should know of it: the levels that the template has, and what stands for others."""
        for name, words in self.efforts.items():
            shown = (
                level if word == level else f"{level} as {word}" for level, word in words.items() if word
            )
            yield f"chat template: {name} {', '.join(shown)}"

    def _switched(self, thinks: bool | None) -> dict[str, Any]:
        if thinks is None:
            return {}
        values = {name: SWITCHES[name][thinks] for name in self.switches}
        return {name: value for name, value in values.items() if value is not None}

    def _level(self, wanted: Any, thinks: bool | None) -> Any:
        """The level, which says what a switch of the request says."""
        if thinks is False:
            return NONE
        if thinks and (wanted == NONE or (wanted is None and self.starts_off)):
            return MEDIUM
        return wanted


def find_thinking(names: frozenset[str], render: Render) -> ThinkingForms:
    """The forms of a template that reads the variables `names`."""
    switches = tuple(name for name in SWITCHES if name in names and (name in SAME or _switches(name, render)))
    on = {name: SWITCHES[name][True] for name in switches if SWITCHES[name][True] is not None}
    efforts: dict[str, Mapping[str, str | None]] = {}
    is_off = ""  # the prompt by a level of no reasoning
    for name in EFFORTS:
        if name in names and (words := _words(name, bool(switches), on, render)):
            efforts[name] = words
            off, any_word = words[NONE], render({name: UNKNOWN})
            if off in OFF_WORDS or (off and any_word and UNKNOWN not in any_word):
                is_off = "" if switches else render({name: off})
    return ThinkingForms(switches, efforts, bool(is_off), bool(is_off) and render({}) == is_off)


def _switches(name: str, render: Render) -> bool:
    """Whether a variable has an effect by the values that it is known for."""
    off, on = SWITCHES[name]
    prompts = {render({name: off}), render({} if on is None else {name: on})}
    return len(prompts) == 2 and "" not in prompts


def _words(
    name: str, has_switch: bool, on: Mapping[str, Any], render: Render
) -> dict[str, str | None] | None:
    """What a variable holds for each level; None where it has none of them, or takes each as it is."""
    prompts = {word: render({**on, name: word}) for word in (*LEVELS, *OFF_WORDS, UNKNOWN)}
    unknown = prompts[UNKNOWN]
    writes_any = UNKNOWN in unknown
    own = [*USUAL] if writes_any else [word for word in prompts if prompts[word] not in ("", unknown)]
    off = next((word for word in OFF_WORDS if word in own), None)
    levels = [level for level in SOME if level in own]
    if not own:
        return None
    takes_any = bool(unknown) and not writes_any
    words: dict[str, str | None] = {level: _nearest(level, levels, takes_any) for level in SOME}
    if off is None and not has_switch and levels and (not takes_any or levels[0] in ("minimal", "low")):
        off = levels[0]
    return {NONE: off, **words}


def _nearest(level: str, levels: list[str], takes_any: bool) -> str | None:
    """The nearest of a template's levels, of two that are as near the higher one.

    A template that `takes_any` word has another level for those below its lowest or above its highest one.
    """
    at = LEVELS.index(level)
    places = [LEVELS.index(each) for each in levels]
    if level in levels or (takes_any and not (places and places[0] < at < places[-1])):
        return level
    return LEVELS[min(places, key=lambda place: (abs(place - at), -place))] if places else None
