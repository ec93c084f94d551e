"""Every request that came, in order, and a way to wait for one."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Seen:
    """One request, and what it was answered; the key itself is never kept."""

    number: int
    # Seconds since the epoch.
    at: float
    # messages, responses, chat, count, models, or other.
    api: str
    path: str
    status: int
    # A key came, and the one that was expected where one was.
    key_came: bool
    header_names: tuple[str, ...]
    model: str = ""
    scenario: str = ""
    step: int = 0
    # Housekeeping of the program, such as a title: it takes no step of a scenario.
    side: bool = True
    # Which fault struck.
    fault: str = ""
    tools: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None
    # What the user said last, and the newest of tool results and words.
    prompt: str = ""
    last_input: str = ""
    stream: bool = False
    # The blocks as the scenario says them.
    reply: tuple[dict[str, Any], ...] = ()
    # What came where the step expected something else.
    unexpected: str = ""


class Log:
    """What was seen so far; safe for many threads, and waited for from any event loop."""

    def __init__(self, file: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._waiting: list[Callable[[], None]] = []
        self._file = file

    @property
    def all(self) -> tuple[Seen, ...]:
        """Every request."""
        with self._lock:
            return tuple(self._seen)

    @property
    def asked(self) -> tuple[Seen, ...]:
        """Those that are no housekeeping."""
        return tuple(one for one in self.all if not one.side)

    def note(self, seen: Seen) -> None:
        """Keep one more, number it, and wake who waits."""
        with self._lock:
            seen = replace(seen, number=len(self._seen) + 1)
            self._seen.append(seen)
            if self._file:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(seen)) + "\n")
            for wake in self._waiting:
                wake()

    async def reached(self, count: int, *, timeout: float) -> tuple[Seen, ...]:
        """The first so many that are no housekeeping, as soon as they are there; TimeoutError says what came."""
        loop, more = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(more.set)

        with self._lock:
            self._waiting.append(wake)
        try:
            async with asyncio.timeout(timeout):
                while len(self.asked) < count:
                    await more.wait()
                    more.clear()
        except TimeoutError as error:
            came = ", ".join(f"{one.scenario}:{one.step} {one.status}" for one in self.asked)
            raise TimeoutError(f"{count} requests were waited for; these came: {came or 'none'}") from error
        finally:
            with self._lock:
                self._waiting.remove(wake)
        return self.asked[:count]
