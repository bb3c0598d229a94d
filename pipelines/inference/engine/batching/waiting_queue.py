"""The waiting texts, by length, and the selection of the next batch.

Each request has a fair share of the tokens: weighted fair queueing, where a text is next when a clock has
reached its tag (Parekh and Gallager, "A generalized processor sharing approach to flow control", 1993).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

from pipelines.inference.engine.batching.batched_request import BatchPart, Texts
from pipelines.inference.engine.batching.length_policy import choose


@dataclass(slots=True, eq=False)
class _Run:
    """Texts of one length of one request that wait: the places `next` to `end` of its order."""

    texts: Texts
    length: int
    next: int
    end: int
    tag: int  # of the next of them

    def take(self, num_texts: int) -> None:
        self.next += num_texts
        self.tag += num_texts * self.length


Turn = tuple[int, int, int, _Run]
"""Priority, tag, number of the run: the smallest is next."""


class WaitingQueue:
    """Texts are added with their request and leave it one batch after another, the longest first.

    Invariants: `_counts[length]` is the number of texts of that length that wait, never 0; `_left[request]`
    is the number of its texts that wait, never 0; `num_texts` and `num_tokens` are the sums.  A run without
    texts may still be in `_turns`.
    """

    def __init__(self, budget: int) -> None:
        """`budget` is the most padded tokens of a batch."""
        self.num_texts = 0
        self.num_tokens = 0
        self._budget = budget
        self._counts: dict[int, int] = {}
        self._turns: dict[int, list[Turn]] = {}  # for each length a heap
        self._runs: dict[Texts, list[_Run]] = {}
        self._left: dict[Texts, int] = {}
        self._clock = 0  # tokens that each request had its turn for, had it waited from the beginning
        self._share = 0  # what the last batch will have the clock count
        self._numbers = count()

    @property
    def oldest(self) -> Texts:
        """The oldest request with a waiting text; there is one."""
        return next(iter(self._left))

    def add(self, texts: Texts) -> None:
        """Queue all texts of a request."""
        tag, runs = self._clock, []
        for length, start, end in texts.runs():
            run = _Run(texts, length, start, end, tag)
            runs.append(run)
            heapq.heappush(self._turns.setdefault(length, []), self._turn(run))
            self._count(length, end - start)
            tag += length * (end - start)
        self._runs[texts], self._left[texts] = runs, len(texts.order)

    def num_left(self, texts: Texts) -> int:
        """How many texts of a request wait."""
        return self._left.get(texts, 0)

    def drop(self, texts: Texts) -> None:
        """Remove the waiting texts of a request."""
        self._left.pop(texts, None)
        for run in self._runs.pop(texts, ()):
            self._count(run.length, run.next - run.end)
            run.next = run.end

    def take(self) -> list[BatchPart]:
        """The next batch, from its longest texts down; something waits.

        It has the text that is next, and of texts of similar length those that are next.
        """
        self._clock += self._share  # only now: requests that came meanwhile go before those of the last batch
        anchor = min(map(self._first, list(self._counts)))[3].length
        chosen = {anchor: 1}
        if self.num_texts > 1:
            chosen = choose(anchor, self._counts, sorted(self._counts), self._budget)
        self._share = sum(length * num_texts for length, num_texts in chosen.items()) // len(self._runs)
        return [part for length, num_texts in chosen.items() for part in self._parts(length, num_texts)]

    def _parts(self, length: int, num_texts: int) -> list[BatchPart]:
        started: dict[_Run, int] = {}
        turns, left = self._turns[length], num_texts
        while left:
            run = self._first(length)[3]
            started.setdefault(run, run.next)
            taken = min(left, run.end - run.next, self._turns_in_a_row(turns))
            run.take(taken)
            left -= taken
            if run.next < run.end:
                heapq.heapreplace(turns, self._turn(run))
        parts = [BatchPart(run.texts, length, start, run.next) for run, start in started.items()]
        self._count(length, -num_texts)
        for part in parts:
            self._took(part)
        return parts

    def _took(self, part: BatchPart) -> None:
        self._left[part.request] -= len(part)
        if not self._left[part.request]:
            del self._left[part.request], self._runs[part.request]

    def _turns_in_a_row(self, turns: list[Turn]) -> int:
        """How many texts of the first run come before any of another."""
        priority, tag, _, run = turns[0]
        if len(turns) == 1:
            return run.end - run.next
        other = min(turns[1:3])
        return run.end - run.next if other[0] > priority else (other[1] - tag) // run.length + 1

    def _first(self, length: int) -> Turn:
        """The next run among the texts of a length."""
        turns = self._turns[length]
        while turns[0][3].next == turns[0][3].end:
            heapq.heappop(turns)
        return turns[0]

    def _turn(self, run: _Run) -> Turn:
        return run.texts.priority, run.tag, next(self._numbers), run

    def _count(self, length: int, change: int) -> None:
        there = self._counts.get(length, 0) + change
        if there:
            self._counts[length] = there
        else:
            self._counts.pop(length, None)
            self._turns.pop(length, None)
        self.num_texts += change
        self.num_tokens += change * length
