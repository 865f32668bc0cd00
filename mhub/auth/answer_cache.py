"""Answers that a source remembers for a moment.

A device with a wrong password tries again and again: a `no` is remembered for some seconds, so
that it does not load the server that knows its users, nor the threads that compute hashes.  How
many seconds varies, or devices that were refused together would come back together.

A `yes` is remembered if `cache_s` says so, at most that long: a user that was deleted can log in
until then.  `cannot_tell` is never remembered: the circuit breaker is there for it.

The keys are digests under a secret of this process: they have the password in them.
"""

import hashlib
import os
import random
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from mhub.auth.contract import NO, NOT_MINE, YES, Answer
from mhub.core.stats import Stats


class CacheBounds:
    """The settings of a source have the same names."""

    cache_s = 0.0
    negative_cache_s = 3.0
    cache_size = 10_000


class AnswerCache:
    """`bounds` has what CacheBounds has; `vary(a, b)` gives a number from a to b."""

    def __init__(
        self,
        bounds: Any,
        clock: Callable[[], float],
        stats: Stats,
        vary: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self.generation = 0
        self._bounds = bounds
        self._clock = clock
        self._stats = stats
        self._vary = vary
        self._secret = os.urandom(32)
        # Apart, as anybody can fill the second one.  By key: the answer, and until when it holds.
        self._yes: dict[bytes, tuple[float, Answer]] = {}
        self._no: dict[bytes, tuple[float, Answer]] = {}

    def __len__(self) -> int:
        return len(self._yes) + len(self._no)

    def key(self, parts: Iterable[bytes]) -> bytes:
        """Of all that the answer depends on."""
        digest = hashlib.blake2b(key=self._secret, digest_size=32)
        for part in parts:
            digest.update(len(part).to_bytes(4, "big") + part)
        return digest.digest()

    def get(self, key: bytes) -> Answer | None:
        for answers in (self._yes, self._no):
            found = answers.get(key)
            if found is None:
                continue
            if self._clock() < found[0]:
                self._stats.auth_backend_cached += 1
                return found[1]
            del answers[key]
        return None

    def put(self, key: bytes, answer: Answer, generation: int) -> None:
        """`generation` is the one of when the question was asked: users may be other ones now."""
        if generation != self.generation:
            return
        identity = answer.identity
        if answer.outcome == YES and (identity is None or not identity.expires_at):
            self._keep(self._yes, key, answer, self._bounds.cache_s)
        elif answer.outcome == NO or answer.outcome == NOT_MINE:
            seconds = self._bounds.negative_cache_s
            self._keep(self._no, key, answer, self._vary(0.5 * seconds, 1.5 * seconds))

    def clear(self) -> None:
        self.generation += 1
        self._yes.clear()
        self._no.clear()

    def _keep(
        self, answers: dict[bytes, tuple[float, Answer]], key: bytes, answer: Answer, seconds: float
    ) -> None:
        if seconds <= 0:
            return
        answer = copy(answer)
        answer.remembered = True
        answers.pop(key, None)
        if len(answers) >= self._bounds.cache_size:
            del answers[next(iter(answers))]  # the oldest
        answers[key] = (self._clock() + seconds, answer)
