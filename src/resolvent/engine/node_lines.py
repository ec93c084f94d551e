"""What the coverage that Node leaves says of watched lines; it comes out of a check, so it may be anything."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

_SILENT = frozenset("{}()[];, \t\r")
_NUMBERS = ("startOffset", "endOffset", "count")
_COMMENTS = ("//", "/*", "*")
Range = tuple[int, int, int]


@dataclass(frozen=True)
class Script:
    """A watched file: where its watched lines begin, counted as V8 counts."""

    path: str
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Told:
    """What documents say: whether a watched line was executed, and that they may not know all."""

    documents: int = 0
    hit: bool = False
    doubt: bool = False


def counting(text: str, asked: frozenset[int]) -> frozenset[int]:
    """The watched lines that hold something to execute."""
    lines = text.split("\n")
    return frozenset(number for number in asked if 0 < number <= len(lines) and _is_told(lines[number - 1]))


def _is_told(line: str) -> bool:
    return bool(set(line) - _SILENT) and not line.lstrip().startswith(_COMMENTS)


def script(path: str, text: str, lines: frozenset[int]) -> Script:
    """Where lines begin, in units of UTF-16 and without a byte order mark, which Node takes away."""
    offsets, here = [], 0
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if number in lines:
            offsets.append(here + len(line) - len(line.lstrip()))
        here += len(line.encode("utf-16-le", "surrogatepass")) // 2 + 1
    return Script(path, tuple(offsets))


def told(document: bytes | None, scripts: Sequence[Script], *, roots: Sequence[str]) -> Told:
    """What a coverage document says; one that cannot be read is a doubt."""
    try:
        results = json.loads(document or b"")["result"]
        every = [(str(result["url"]), result["functions"]) for result in results]
    except (ValueError, KeyError, TypeError, RecursionError):
        return Told(1, doubt=True)
    hit = doubt = False
    for url, functions in every:
        if not url.startswith("file://"):
            # A script of no file may be any file's: compiled by a test runner, or evaluated.
            doubt = doubt or not url.startswith(("node:", "[eval]"))
            continue
        place = unquote(url[len("file://") :])
        doubt = doubt or "/node_modules/" in place
        for one in scripts:
            if any(place == f"{root}/{one.path}" for root in roots):
                hit = hit or _executed(one, functions)
            elif place.endswith("/" + "/".join(one.path.split("/")[-2:])):
                doubt = True
    return Told(1, hit, doubt)


def _executed(one: Script, functions: object) -> bool:
    """The innermost range around one of the offsets was counted."""
    ranges = sorted(_ranges(functions), key=lambda found: (found[0], -found[1]))
    around: list[Range] = []
    following = iter(ranges)
    upcoming = next(following, None)
    for offset in one.offsets:
        while upcoming is not None and upcoming[0] <= offset:
            while around and around[-1][1] <= upcoming[0]:
                around.pop()
            around.append(upcoming)
            upcoming = next(following, None)
        while around and around[-1][1] <= offset:
            around.pop()
        if around and around[-1][2] > 0:
            return True
    return False


def _ranges(functions: object) -> Iterator[Range]:
    for function in functions if isinstance(functions, list) else []:
        found = function.get("ranges") if isinstance(function, dict) else None
        for number, one in enumerate(found if isinstance(found, list) else []):
            values = [one.get(name) for name in _NUMBERS] if isinstance(one, dict) else []
            numbers = [value for value in values if type(value) is int]
            if len(numbers) == len(_NUMBERS):
                # To define a function is to execute its first line, though nobody calls it.
                yield numbers[0] + (1 if number == 0 and numbers[0] else 0), numbers[1], numbers[2]


def together(every: Iterable[Told]) -> Told:
    """What several documents say."""
    told = list(every)
    return Told(len(told), any(one.hit for one in told), any(one.doubt for one in told))
