"""What goes wrong on purpose: answers that fail, come late, or never arrive although the write happened."""

import asyncio
import random
import re
from typing import Literal

from pydantic import Field, JsonValue, field_validator

from resolvent.domain.model import Value

FaultKind = Literal["error", "secondary", "primary", "slow", "lost", "cut", "malformed", "duplicate", "hasty", "belied"]


class Fault(Value):
    """One thing that goes wrong with requests whose method and path match; with webhooks for `duplicate`.

    error: answered with `status` · secondary: 403 with retry-after · primary: 429 until the limit resets · slow: held
    until it is released · lost: done, but the connection is cut instead of an answer · cut: not done, and cut ·
    malformed: done, answered with half a document · duplicate: delivered twice · hasty: refused as too much content in
    too little time · belied: done, but answered with `status` as if it were not. GraphQL tells limits with status 200.
    """

    kind: FaultKind
    method: str = ".*"
    # Searched in the path with its query; of a webhook in `event.action`.
    path: str = ""
    status: int = Field(default=502, ge=400, le=599)
    retry_after: int = Field(default=60, ge=0)
    # What an error says beside its status: `{"message": …, "errors": […]}`.
    said: dict[str, JsonValue] = {}
    # How often it strikes, all in all; None: always.
    times: int | None = Field(default=None, ge=0)
    # How many that match are let through first.
    after: int = Field(default=0, ge=0)
    probability: float = Field(default=1.0, ge=0, le=1)

    @field_validator("method", "path")
    @classmethod
    def _pattern(cls, text: str) -> str:
        try:
            re.compile(text)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        return text

    def matches(self, method: str, path: str) -> bool:
        """It is about such a request."""
        return bool(re.fullmatch(self.method, method, re.I) and re.search(self.path, path))


class Faults:
    """The faults in force, in the order they were added; the same seed strikes the same requests."""

    def __init__(self, seed: int = 0) -> None:
        # What struck, with the request it struck: `("lost", "POST /repos/…")`.
        self.struck: list[tuple[FaultKind, str]] = []
        self._random = random.Random(seed)
        self._rules: list[tuple[Fault, list[int]]] = []
        self._released = asyncio.Event()
        self._held = asyncio.Condition()
        self.held = 0

    @property
    def rules(self) -> tuple[Fault, ...]:
        return tuple(fault for fault, _ in self._rules)

    def add(self, fault: Fault) -> None:
        """From now on this goes wrong too."""
        if fault.kind == "slow":
            self._released = asyncio.Event()
        self._rules.append((fault, [0, 0]))

    def clear(self) -> None:
        """Nothing goes wrong any more, and whoever is held is let go."""
        self._rules.clear()
        self.release()

    def release(self) -> None:
        """Let go of every request that is held by a slow fault, and of those to come."""
        self._released.set()

    def strikes(self, method: str, path: str, *, webhook: bool = False) -> Fault | None:
        """The fault that this request runs into: the first that matches and is not used up."""
        for fault, counts in self._rules:
            if (fault.kind == "duplicate") != webhook or not fault.matches(method, path):
                continue
            counts[0] += 1
            used_up = fault.times is not None and counts[1] >= fault.times
            if used_up or counts[0] <= fault.after or self._random.random() >= fault.probability:
                continue
            counts[1] += 1
            self.struck.append((fault.kind, f"{method} {path}"))
            return fault
        return None

    async def hold(self) -> None:
        """Wait as a request that is slow, until released."""
        async with self._held:
            self.held += 1
            self._held.notify_all()
        try:
            await self._released.wait()
        finally:
            self.held -= 1

    async def until_held(self, number: int = 1) -> None:
        """Wait until so many requests are held at once."""
        async with self._held:
            await self._held.wait_for(lambda: self.held >= number)
