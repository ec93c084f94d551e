"""What agents did, for people: output heard as moments from where one stopped, and moments as lines of a terminal."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from resolvent.cli.terminal import Terminal, clean, fit, one_line
from resolvent.cli.words import count, money, seconds
from resolvent.domain.job import Usage
from resolvent.domain.transcript import (
    FileChanged,
    Moment,
    Noticed,
    Retried,
    Said,
    Spent,
    Thought,
    ToolAnswered,
    ToolCalled,
)
from resolvent.ports import Listener

CHUNK = 1 << 20
# A line without an end must not grow in our memory; no listener reads one that is longer.
LONGEST = 32 << 20
RESULT_LINES = 8
# A pipe has no edge, and yet nobody reads a line of thousands of columns.
WIDEST = 300
MOST_WORDS = 2000
WORKSPACE = "/workspace/"
CHANGES = {"add": " (new)", "update": "", "delete": " (deleted)"}
# What a listener made of a line; or the line itself, when it is no event but words that were printed beside them.
Heard = Moment | str


class Hearing:
    """The moments of one job's output; each look goes on where the last one stopped."""

    def __init__(self, output: Path, listener: Listener) -> None:
        self._output = output
        self._listener = listener
        self._at = 0
        self._rest = b""

    def more(self, *, over: bool, most_bytes: int | None = None) -> Iterator[Heard]:
        """What came since; `over` says that nobody writes any more, so that a last line without an end is one."""
        left = most_bytes
        try:
            with self._output.open("rb") as file:
                file.seek(self._at)
                while chunk := file.read(CHUNK if left is None else min(CHUNK, left)):
                    self._at += len(chunk)
                    left = None if left is None else left - len(chunk)
                    yield from self._heard(chunk)
                caught_up = left != 0
        except FileNotFoundError:
            return
        if over and caught_up and self._rest:
            rest, self._rest = self._rest, b""
            yield from self._line(rest)

    def _heard(self, chunk: bytes) -> Iterator[Heard]:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            yield from self._line(line)
        if len(self._rest) >= LONGEST:
            rest, self._rest = self._rest, b""
            yield from self._line(rest)

    def _line(self, line: bytes) -> Iterator[Heard]:
        moments = self._listener.hear(line)
        yield from moments
        if not moments and not line.lstrip().startswith(b"{"):
            words = clean(line[:MOST_WORDS].decode("utf-8", "replace")).strip()
            if words:
                yield words


class Teller:
    """Moments as lines, in the same shape for every program; what was spent is remembered and told by who asks."""

    def __init__(self, terminal: Terminal) -> None:
        self.spent = Usage()
        self.last_said = ""
        self._terminal = terminal
        self._room = min(terminal.width, WIDEST) - 4
        self._tools: dict[str, str] = {}
        self._last_call = ""

    def lines(self, heard: Heard) -> list[str]:
        """What one moment is worth on a screen."""
        match heard:
            case str():
                return [self._dim(f"  {self._fit(heard)}")]
            case Said(text=text):
                return self._said(text)
            case Thought(text=text):
                return [self._dim(f"  {line}") for line in clean(text).strip("\n").expandtabs(4).split("\n")]
            case ToolCalled() as called:
                return [self._called(called)]
            case ToolAnswered() as answered:
                return list(self._answered(answered))
            case Spent(usage=usage):
                self.spent = usage
                return []
            case FileChanged(path=path, change=change):
                return [f"{self._paint('✎', 'green')} {self._fit(path.removeprefix(WORKSPACE))}{CHANGES[change]}"]
            case Retried() | Noticed():
                said = f"↻ {_again(heard)}" if isinstance(heard, Retried) else f"● {heard.text}"
                return [self._paint(self._fit(said), "yellow")]

    def _said(self, text: str) -> list[str]:
        self.last_said = text
        # An answer after a schema is for programs; people get the gist of it.
        if (answer := _passed(text)) is not text:
            return [f"{self._paint('→', 'cyan')} {self._paint('answers', 'bold')}  {self._fit(answer, less=8)}"]
        return clean(text).strip("\n").expandtabs(4).split("\n")

    def _called(self, called: ToolCalled) -> str:
        tool = one_line(called.tool) or "a tool"
        self._tools[called.call] = tool
        self._last_call = called.call
        said = self._fit(_passed(called.input), less=len(tool))
        return f"{self._paint('→', 'cyan')} {self._paint(tool, 'bold')}  {said}".rstrip()

    def _answered(self, answered: ToolAnswered) -> Iterator[str]:
        tool = self._tools.pop(answered.call, "")
        # Several at once come back in any order.
        if tool and answered.call != self._last_call:
            yield self._dim(f"  {tool} gave:")
        rows = [line.rstrip() for line in clean(answered.output).expandtabs(4).split("\n") if line.strip()]
        style = "red" if answered.failed else "dim"
        for row in rows[:RESULT_LINES]:
            yield self._paint(f"  │ {fit(row[:MOST_WORDS], self._room)}", style)
        if len(rows) > RESULT_LINES:
            yield self._dim(f"  │ … {len(rows) - RESULT_LINES} more lines")
        if answered.failed and not rows:
            yield self._paint("  │ it failed", style)

    def _fit(self, text: str, *, less: int = 0) -> str:
        return fit(one_line(text[:MOST_WORDS]), max(8, self._room - less))

    def _dim(self, text: str) -> str:
        return self._paint(text, "dim")

    def _paint(self, text: str, style: str) -> str:
        return self._terminal.paint(text, style)


class LastWords:
    """The last lines of an agent that is at work, and what it has spent by now."""

    def __init__(self, output: Path, listener: Listener, terminal: Terminal, *, most: int) -> None:
        self._hearing = Hearing(output, listener)
        self._teller = Teller(Terminal(terminal.stream, live=False, colour=False, width=terminal.width))
        self._lines: deque[str] = deque(maxlen=most)

    def listen(self, *, most_bytes: int) -> None:
        """Hear what came since, so much at a time."""
        for heard in self._hearing.more(over=False, most_bytes=most_bytes):
            self._lines += [line for line in self._teller.lines(heard) if line.strip()]

    @property
    def lines(self) -> list[str]:
        return list(self._lines)

    @property
    def spent(self) -> Usage:
        return self._teller.spent


def usage_line(usage: Usage) -> str:
    """`$0.02 · 1.2k tokens in (1.0k cached), 34 out`; empty when nothing is known."""
    if usage == Usage():
        return ""
    cached = f" ({count(usage.cached_tokens)} cached)" if usage.cached_tokens else ""
    tokens = f"{count(usage.input_tokens)} tokens in{cached}, {count(usage.output_tokens)} out"
    known = usage.usd > 0 or not (usage.input_tokens or usage.output_tokens)
    return f"{money(usage.usd) if known else 'price not known'} · {tokens}"


def _passed(given: str) -> str:
    """What a tool is given: a command as it is, an object as its names and values without the empty ones."""
    if not given.startswith("{") or len(given) > MOST_WORDS * 32:
        return given
    try:
        return _spread(json.loads(given)) or given
    except (ValueError, RecursionError):
        return given


def _spread(found: object) -> str:
    if not isinstance(found, dict):
        return ""
    if len(found) == 1:
        return str(next(iter(found.values())))
    said = {name: one_line(str(value)[:200]) for name, value in found.items() if value not in ("", None, [], {})}
    return " ".join(f"{name}={fit(value, 80)}" for name, value in said.items())


def _again(again: Retried) -> str:
    said = ["asks its model again"]
    said += [f"in {seconds(again.delay_s)}"] if again.delay_s else []
    said += [f"(attempt {again.attempt})"] if again.attempt else []
    why = " ".join(filter(None, (str(again.status or ""), again.reason)))
    return f"{' '.join(said)}{f': {why}' if why else ''}"
