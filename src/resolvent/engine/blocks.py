"""What stands inside a block of an answer: keyed sections, items, fences and reproducers."""

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from pydantic import ValidationError

from resolvent.domain.change import Reproducer
from resolvent.domain.model import Value
from resolvent.domain.verdicts import MAX_CLAIMS
from resolvent.errors import MalformedAnswer

T = TypeVar("T", bound=Value)

MAX_ANSWER_BYTES = 1 << 20
_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<rest>[^\n]*)")
_NEW_ITEM = re.compile(r"[-*+#]|\d+[.)]")
_POINT = re.compile(r"(?:[-*+]|\d{1,4}[.)])[ \t]+(?P<text>\S.*)")
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True)
class Section:
    """A key with what stands behind it on its line, and the lines below it."""

    key: str
    first: str
    rest: tuple[str, ...]
    dash: bool = False

    @property
    def text(self) -> str:
        """Its value, without the indentation its further lines have in common."""
        return "\n".join((self.first, textwrap.dedent("\n".join(self.rest)))).strip()


def fence_after(line: str, fence: str) -> str:
    """The fence that is open after this line, when `fence` was open before it; empty for none."""
    seen = _FENCE.fullmatch(line)
    if seen is None:
        return fence
    mark, rest = seen["mark"], seen["rest"]
    if fence:
        closes = mark[0] == fence[0] and len(mark) >= len(fence) and not rest.strip()
        return "" if closes else fence
    return "" if mark[0] == "`" and "`" in rest else mark


def shortened(line: str) -> str:
    """A line of an agent as a message may quote it: on one line, and short."""
    return repr(line if len(line) <= 120 else f"{line[:117]}...")


def sections(block: Sequence[str], key: re.Pattern[str]) -> list[Section]:
    """Cut a block at its key lines; the first section has no key and holds what stands above them all."""
    found, name, first, dash, rest = [], "", "", False, []
    fence = ""
    for line in textwrap.dedent("\n".join(block)).split("\n"):
        seen = None if fence else key.fullmatch(line)
        fence = fence_after(line, fence)
        if seen is None:
            rest.append(line)
            continue
        found.append(Section(name, first, tuple(rest), dash))
        name, first, rest = re.sub(r"[ _]+", "_", seen["key"].lower()), seen["first"].strip(), []
        dash = bool(seen.groupdict().get("dash"))
    if fence:
        raise MalformedAnswer(f"a code fence opened with {fence} inside the block is never closed")
    return [*found, Section(name, first, tuple(rest), dash)]


def keyed(block: Sequence[str], keys: Sequence[str]) -> dict[str, Section]:
    """A block of `key: value` at the start of lines, each key once; other lines belong to the value above them."""
    above, *found = sections(block, re.compile(rf"(?P<key>{'|'.join(keys)})[ \t]*:(?P<first>.*)"))
    _nothing_in(above)
    return _each_once(found)


def items(block: Sequence[str], *, start: str, keys: Sequence[str]) -> list[dict[str, Section]]:
    """A block of items that begin `- Start: …`, each with its own keys; anything else in it is malformed."""
    names = "|".join(name.replace(" ", "[ _]") for name in (start, *keys))
    pattern = re.compile(rf"[ \t]*(?P<dash>-[ \t]+)?(?P<key>{names})[ \t]*:(?P<first>.*)", re.I)
    above, *found = sections(block, pattern)
    _nothing_in(above)
    if not found:
        raise MalformedAnswer(f"the block is empty: it must hold items that begin `- {start}:`")
    grouped: list[list[Section]] = []
    for section in found:
        _continued(section)
        if section.key == start.lower() and section.dash:
            grouped.append([])
        elif not grouped or section.key == start.lower():
            raise MalformedAnswer(f"every item must begin `- {start}:`, but one begins with {section.key}")
        grouped[-1].append(section)
    if len(grouped) > MAX_CLAIMS:
        raise MalformedAnswer(f"the block holds more than {MAX_CLAIMS} items: keep to those that matter most")
    return [_each_once(group) for group in grouped]


def listed(block: Sequence[str]) -> list[str]:
    """A block of points, each begun by a list mark at the margin; indented lines, and those directly below, go on."""
    found: list[list[str]] = []
    fence = above = ""
    for line in textwrap.dedent("\n".join(block)).split("\n"):
        outside = not fence
        point = _POINT.fullmatch(line) if outside else None
        fence = fence_after(point["text"] if point else line, fence)
        at_margin = outside and line.strip() and not line[0].isspace()
        if point:
            found.append([point["text"]])
        elif at_margin and (not found or not above.strip() or _NEW_ITEM.match(line)):
            raise MalformedAnswer(f"this line belongs to no point of the list: {shortened(line)}; begin it with `- `")
        elif found:
            found[-1].append(line)
        elif line.strip():
            raise MalformedAnswer(f"the list must begin with `- `, but it begins with {shortened(line)}")
        above = line
    if fence:
        raise MalformedAnswer(f"a code fence opened with {fence} inside the list is never closed")
    return [Section("", first, tuple(rest)).text for first, *rest in found]


def several(section: Section) -> list[str]:
    """The value of a key that may take a list: the points below it, or one point when it is plain text."""
    below = textwrap.dedent("\n".join(section.rest)).split("\n")
    if not any(_POINT.fullmatch(line) for line in below):
        return [section.text] if section.text else []
    if section.first:
        raise MalformedAnswer(f"{section.key} has text on its line and a list below it: give one of them")
    return listed(section.rest)


def _nothing_in(above: Section) -> None:
    for line in above.rest:
        if line.strip():
            raise MalformedAnswer(f"the block must begin with a key, but it begins with {shortened(line)}")


def _each_once(found: Sequence[Section]) -> dict[str, Section]:
    named: dict[str, Section] = {}
    for section in found:
        if named.setdefault(section.key, section) is not section:
            raise MalformedAnswer(f"the key {section.key} stands twice, or begins a line of another value")
    return named


def _continued(section: Section) -> None:
    """Text that begins anew at the margin could be a finding of its own: it must not vanish in another's value."""
    fence = ""
    for above, line in pairwise((section.first or section.key, *section.rest)):
        outside, fence = not fence, fence_after(line, fence)
        at_margin = outside and not fence and line.strip() and not line[0].isspace()
        if at_margin and (_NEW_ITEM.match(line) or not above.strip()):
            raise MalformedAnswer(f"this line belongs to no key of an item: {shortened(line)}; indent it if it does")


def reproducer(section: Section) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What a `reproducer:` line says, as fields of a verdict, and the lines after it."""
    if section.first:
        word, *why = section.first.split(None, 1)
        if word != "none" or not why:
            raise MalformedAnswer("`reproducer:` must be followed by a fenced JSON object, or by `none` and the reason")
        end = next((at for at, line in enumerate(section.rest) if not line.strip()), len(section.rest))
        return {"no_reproducer": Section("", why[0], section.rest[:end]).text}, section.rest[end:]
    begin = next((at for at, line in enumerate(section.rest) if line.strip()), 0)
    fence = fence_after(section.rest[begin], "") if section.rest else ""
    if not fence or section.rest[begin].strip().removeprefix(fence).strip() not in ("", "json"):
        raise MalformedAnswer("`reproducer:` must be followed by a JSON object in a fence that opens with ```json")
    end = next(at for at, line in enumerate(section.rest) if at > begin and not fence_after(line, fence))
    found = validated(Reproducer, "\n".join(section.rest[begin + 1 : end]), called="the reproducer")
    return {"reproducer": found}, section.rest[end + 1 :]


def validated(model: type[T], text: str, *, called: str) -> T:
    """JSON text into the model, with nothing guessed: no second key, no NaN, no other type, nothing unknown."""
    try:
        if len(text.encode()) > MAX_ANSWER_BYTES:
            raise MalformedAnswer(f"{called} is longer than {MAX_ANSWER_BYTES} bytes")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refused)
        if not isinstance(value, dict):
            raise MalformedAnswer(f"{called} must be a JSON object")
        if _NUL.search(text):
            raise MalformedAnswer(f"{called} holds a NUL character")
        return model.model_validate_json(text, strict=True)
    except RecursionError as error:
        raise MalformedAnswer(f"{called} is nested too deeply") from error
    except ValidationError as error:
        raise MalformedAnswer(f"{called} does not fit: {explained(error)}") from error
    except ValueError as error:
        raise MalformedAnswer(f"{called} is not valid JSON: {' '.join(str(error).split())}") from error


def explained(error: ValidationError) -> str:
    """Which fields do not fit and why, on one line."""
    parts = [f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()[:5]]
    return " ".join("; ".join(parts).split())[:2000]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
