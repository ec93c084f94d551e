"""What a program printed, read as hostile input: JSON objects line by line, and values of the types one expects."""

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from resolvent.domain.job import Usage
from resolvent.domain.transcript import MOST_TEXT, shortened

# A tool's whole output may stand in one line.
MOST_LINE = 32 << 20
SHOWN_LINES = 20
# Terminal commands, and every control character but tab and newline.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x1b\\|\x07|$)|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.S
)

Mapping = dict[str, Any]


class Objects:
    """The JSON objects of a file in order; a line that is none is skipped and counted.

    `holding`: only lines with one of these byte strings are looked at. `last`: only that many bytes of the end.
    """

    def __init__(self, path: Path, *, holding: Sequence[bytes] = (), last: int | None = None) -> None:
        self.skipped = 0
        self._path = path
        self._holding = holding
        self._last = last

    def __iter__(self) -> Iterator[Mapping]:
        self.skipped = 0
        for line in lines_of(self._path, self._last):
            if line is not None and self._holding and not any(word in line for word in self._holding):
                continue
            found = None if line is None else parsed(line)
            if found is not None:
                yield found
            elif line is None or line.strip():
                self.skipped += 1


def parsed(line: bytes) -> Mapping | None:
    """The JSON object of one line; None when it is not one, or too large to be looked at."""
    if len(line) > MOST_LINE or not line.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def lines_of(path: Path, last: int | None = None) -> Iterator[bytes | None]:
    """Each line, of the last so many bytes only if that is said; None in place of one longer than any may be."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        if last is not None and os.fstat(file.fileno()).st_size > last:
            # From one byte before: a line that begins exactly there is whole.
            file.seek(-last - 1, os.SEEK_END)
            _skip(file.readline(MOST_LINE), file)
        while line := file.readline(MOST_LINE):
            yield line if _skip(line, file) else None


def _skip(line: bytes, file: Any) -> bool:
    """Pass over the rest of a line that was cut off; whether it was whole."""
    whole = line.endswith(b"\n") or len(line) < MOST_LINE
    while not line.endswith(b"\n") and line:
        line = file.readline(MOST_LINE)
    return whole


def text(value: object, most: int = MOST_TEXT) -> str:
    """A string that can be stored and shown, shortened in its middle; empty for anything else."""
    if not isinstance(value, str):
        return ""
    # Half a surrogate pair is a string in JSON and in no file.
    return shortened(value, most).encode("utf-8", "replace").decode()


def shown(value: object, most: int = MOST_TEXT) -> str:
    """A string as it is, anything else as JSON."""
    if isinstance(value, str):
        return text(value, most)
    try:
        return text(json.dumps(value, ensure_ascii=False), most)
    except RecursionError:
        return "…"


def mapping(value: object) -> Mapping:
    """A JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Mapping]:
    """The objects in a JSON array; none for anything else."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def number(value: object) -> float:
    """A finite number that is not negative; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        found = float(value)
    except OverflowError:
        return 0.0
    return found if math.isfinite(found) and found > 0 else 0.0


def count(value: object) -> int:
    """A whole number that is not negative and fits a database; 0 for anything else."""
    found = number(value)
    return int(found) if found < 1 << 53 else 0


def sensible(usage: Usage) -> Usage:
    """The usage when it is one that can be added up, else none: no turn is lost over it."""
    numbers = (usage.usd, usage.input_tokens, usage.cached_tokens, usage.output_tokens)
    # Only compared: whole numbers may be larger than any float.
    return usage if all(0 <= number < 1 << 53 for number in numbers) else Usage()


def plain(value: str) -> str:
    """The text without what would move a terminal's cursor."""
    return _CONTROL.sub("", value)


def end_of(path: Path, size: int) -> str:
    """The last bytes of a file as text; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size).decode(errors="replace")
    except FileNotFoundError:
        return ""


def last_lines(path: Path, most: int = SHOWN_LINES) -> str:
    """The last lines that say something, as a person may see them."""
    lines = plain(end_of(path, 1 << 16)).splitlines()
    return "\n".join([line.rstrip() for line in lines if line.strip()][-most:])
