"""What reaches the screen: our own colours, and foreign text with every control sequence taken out."""

import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

# Escape sequences whole, then whatever control character is left; tabs and line ends are dealt with by the callers.
# The marks that turn the direction of text around are no less a way to make a line say what it does not.
_CONTROL = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[\\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?"
    "|\x9b[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# A cell of a table: its text, or its text and how it is painted.
Cell = str | tuple[str, str]
MAX_WIDTH = 120
PLAIN_WIDTH = 10_000


def clean(text: str) -> str:
    """The text without anything that a terminal would obey; lines stay lines."""
    return _CONTROL.sub("", text)


def one_line(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    return " ".join(clean(text).split())


def cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(mark) else 2 if unicodedata.east_asian_width(mark) in "WF" else 1 for mark in text
    )


def fit(text: str, room: int) -> str:
    """The text, cut with an ellipsis when it takes more columns than there is room for."""
    if cells(text) <= room:
        return text
    kept = ""
    for mark in text:
        if cells(kept + mark) > room - 1:
            break
        kept += mark
    return kept + "…" if room > 0 else ""


def wrapped(text: str, room: int) -> list[str]:
    """The words of a text on as many lines as they need; only a word that is wider than the room is broken."""
    lines = [""]
    for word in text.split():
        if lines[-1] and cells(lines[-1]) + 1 + cells(word) <= room:
            lines[-1] += f" {word}"
            continue
        lines += [""] if lines[-1] else []
        for mark in word:
            if lines[-1] and cells(lines[-1]) + cells(mark) > room:
                lines.append("")
            lines[-1] += mark
    return lines


@dataclass(frozen=True)
class Terminal:
    """One stream: does a person look at it, does it take colours, how wide is it."""

    stream: TextIO
    live: bool
    colour: bool
    width: int

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str]) -> "Terminal":
        """Without a terminal there are plain lines of any length and no escape codes."""
        live = stream.isatty() and environ.get("TERM") != "dumb"
        width = min(MAX_WIDTH, shutil.get_terminal_size().columns) if stream.isatty() else PLAIN_WIDTH
        return cls(stream, live=live, colour=live and not environ.get("NO_COLOR"), width=width)

    def paint(self, text: str, style: str) -> str:
        """The text in a style; the text must be clean."""
        if not self.colour or not style or not text:
            return text
        return f"\x1b[{';'.join(_STYLES[word] for word in style.split())}m{text}\x1b[0m"

    def say(self, *lines: str) -> None:
        """Print lines that are fit to be seen."""
        for line in lines:
            print(line, file=self.stream)

    def spans(self, rows: Iterable[Sequence[Cell]], *, indent: int = 2) -> int:
        """How many columns a table of these rows takes when nothing is cut."""
        measured = [[cells(_cell(cell)[0]) for cell in row] for row in rows]
        widths: list[int] = [max(column) for column in zip(*measured, strict=True)]
        return indent + sum(widths) + 2 * (len(widths) - 1)

    def table(self, rows: Iterable[Sequence[Cell]], *, align: str, indent: int = 2) -> list[str]:
        """Aligned columns, `<` or `>` each; the one marked `=` gives way when the whole is too wide."""
        cleaned = [[_cell(cell) for cell in row] for row in rows]
        widths = [max((cells(row[at][0]) for row in cleaned), default=0) for at in range(len(align))]
        room = self.width - indent - 2 * (len(align) - 1)
        if "=" in align:
            at = align.index("=")
            widths[at] = max(8, min(widths[at], room - sum(widths) + widths[at]))
        return [" " * indent + self._row(row, widths, align) for row in cleaned]

    def _row(self, row: Sequence[tuple[str, str]], widths: Sequence[int], align: str) -> str:
        parts = []
        for (text, style), width, side in zip(row, widths, align, strict=True):
            short = fit(text, width)
            gap = " " * (width - cells(short))
            painted = self.paint(short, style)
            parts.append(gap + painted if side == ">" else painted + gap)
        return "  ".join(parts).rstrip()


def _cell(cell: Cell) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return one_line(text), style


def stdout() -> Terminal:
    """Where results go."""
    from resolvent.places import environment

    return Terminal.of(sys.stdout, environment())


def stderr() -> Terminal:
    """Where warnings and errors go."""
    from resolvent.places import environment

    return Terminal.of(sys.stderr, environment())
