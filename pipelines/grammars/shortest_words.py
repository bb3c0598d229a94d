"""The shortest words of context-free rules: whether a grammar has any word, and how long one must be.

A grammar without a finite word cannot be followed to its end; one whose shortest word is long forces that
many characters at once.  `regex_rules`, `lark_rules` and `schema_rules` write such rules.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush

Item = tuple[str | int, int]
"""The name of a rule, or the length of a constant text, and how often it must come at least."""
Rules = dict[str, list[list[Item]]]
"""Name → alternatives, each a sequence of items.  A name without rules may be anything, also empty."""


def shortest_words(rules: Rules) -> dict[str, int]:
    """The length of the shortest word of each rule that has a finite one (Knuth's form of Dijkstra's method:
    rules are settled from the shortest on).
    """
    uses: dict[str, list[tuple[list[int], str, int]]] = defaultdict(list)
    waiting: list[tuple[int, str]] = []
    for name, alternatives in rules.items():
        for items in alternatives:
            known = sum(item * times for item, times in items if isinstance(item, int))
            needed = [(item, times) for item, times in items if times and item in rules]
            state = [len(needed), known]
            for item, times in needed:
                uses[str(item)].append((state, name, times))
            if not needed:
                heappush(waiting, (known, name))
    lengths: dict[str, int] = {}
    while waiting:
        length, name = heappop(waiting)
        if name not in lengths:
            lengths[name] = length
            for state, user, times in uses[name]:
                state[0] -= 1
                state[1] += length * times
                if state[0] == 0:
                    heappush(waiting, (state[1], user))
    return lengths


def reachable(rules: Rules, start: str) -> set[str]:
    """The rules that `start` leads to, itself included."""
    found, waiting = {start}, [start]
    while waiting:
        for items in rules.get(waiting.pop(), ()):
            new = {item for item, _ in items if isinstance(item, str)} - found
            found |= new
            waiting += new
    return found


def is_recursive(rules: Rules) -> bool:
    """Whether a rule leads to itself: rules that lead to none are taken away until only such are left."""
    users: dict[str, list[str]] = defaultdict(list)
    num_used = dict.fromkeys(rules, 0)
    for name, alternatives in rules.items():
        for used in {item for items in alternatives for item, _ in items if item in rules}:
            users[str(used)].append(name)
            num_used[name] += 1
    free = [name for name, count in num_used.items() if not count]
    num_left = len(rules) - len(free)
    while free:
        for user in users[free.pop()]:
            num_used[user] -= 1
            if not num_used[user]:
                free.append(user)
                num_left -= 1
    return num_left > 0
