"""Find the verdict an agent's output ends with. Tokens are whole lines at the margin; nothing is guessed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from resolvent.engine.blocks import fence_after, shortened
from resolvent.errors import MalformedAnswer

MAX_VERDICT = 1 << 20
_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]+[0-~]|[0-Z\\-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_BLANK = " \t\r"


@dataclass(frozen=True)
class Form:
    """What follows one token: a block, fields that must be there, fields that are there together or not at all."""

    block: str = ""
    fields: tuple[str, ...] = ()
    together: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """How every verdict of one step looks; `bare` fields are a verdict without a token, asides stand beside any."""

    forms: Mapping[str, Form]
    asides: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()

    @cached_property
    def blocks(self) -> tuple[str, ...]:
        return (*(form.block for form in self.forms.values() if form.block), *self.asides)

    @cached_property
    def markers(self) -> frozenset[str]:
        """Every line that means something in this step."""
        edges = (f"{edge}_{block}" for block in self.blocks for edge in ("BEGIN", "END"))
        return frozenset((*self.forms, *edges))

    @cached_property
    def field(self) -> re.Pattern[str]:
        names = dict.fromkeys(name for form in self.forms.values() for name in (*form.fields, *form.together))
        return re.compile(rf"(?P<name>{'|'.join(names) or '(?!)'})=(?P<value>.*)")


@dataclass(frozen=True)
class Told:
    """One verdict as it was printed."""

    token: str
    fields: Mapping[str, str]
    blocks: Mapping[str, Sequence[str]]


def clean(text: str) -> str:
    """The text without what only a terminal reads."""
    return _ANSI.sub("", text) if "\x1b" in text or "\x9b" in text else text


def speaks(text: str, shape: Shape) -> bool:
    """The text holds a token, or part of a verdict, outside of fences."""
    last = text.rstrip().rpartition("\n")[2]
    bare = shape.field.match(last)
    return bool(_at_large(text, shape.markers)) or (bare is not None and bare["name"] in shape.bare)


def final(text: str, shape: Shape) -> Told:
    """The verdict the text ends with; MalformedAnswer when there is none or anything else contradicts it."""
    ending = text.rstrip()
    cut = ending.find("\n", len(ending) - MAX_VERDICT) + 1 if len(ending) > MAX_VERDICT else 0
    raw = ending[cut:].split("\n")
    lines = [line.rstrip(_BLANK) for line in raw]
    told, first = _read_back(lines, shape)
    if not told.token and (set(told.fields) != set(shape.bare) or told.blocks or not shape.bare):
        raise MalformedAnswer(_missing(ending, lines, told=told, shape=shape))
    _complete(told, shape)
    start = cut + sum(len(line) + 1 for line in raw[:first])
    if "\0" in ending[start:]:
        raise MalformedAnswer("the verdict holds a NUL character")
    _uncontradicted(ending, start, told=told, shape=shape)
    return told


def _read_back(lines: Sequence[str], shape: Shape) -> tuple[Told, int]:
    """Read upwards from the last line as far as the verdict goes; also says where it begins."""
    token, fields, blocks = "", dict[str, str](), dict[str, Sequence[str]]()
    first = len(lines)
    while True:
        at = next((at for at in range(first - 1, -1, -1) if lines[at]), -1)
        line = lines[at] if at >= 0 else ""
        field = shape.field.fullmatch(line)
        block = line.removeprefix("END_") if line.startswith("END_") else ""
        if not token and line in shape.forms:
            token = line
        elif not token and field and field["name"] not in fields:
            fields[field["name"]] = field["value"].strip()
        elif block in (shape.asides if token else shape.blocks) and block not in blocks:
            at, blocks[block] = _block(lines, at, shape=shape)
        else:
            return Told(token, fields, blocks), first
        first = at


def _block(lines: Sequence[str], end: int, *, shape: Shape) -> tuple[int, Sequence[str]]:
    name = lines[end].removeprefix("END_")
    for at in range(end - 1, -1, -1):
        if lines[at] == f"BEGIN_{name}":
            return at, lines[at + 1 : end]
        if lines[at] in shape.markers:
            raise MalformedAnswer(
                f"a line reading {lines[at]} stands inside the block that END_{name} ends: indent it if you quote"
            )
    raise MalformedAnswer(f"END_{name} has no line reading BEGIN_{name} above it (a verdict takes at most 1 MiB)")


def _complete(told: Told, shape: Shape) -> None:
    form = shape.forms.get(told.token, Form(together=shape.bare))
    called = told.token or "the answer"
    if form.block and form.block not in told.blocks:
        raise MalformedAnswer(f"{called} must be followed by a block from BEGIN_{form.block} to END_{form.block}")
    for block in told.blocks:
        if block != form.block and block not in shape.asides:
            raise MalformedAnswer(f"{called} does not take the block {block}")
    together = form.together if set(form.together) & set(told.fields) else ()
    for name in (*form.fields, *together):
        value = told.fields.get(name, "")
        if not value or (value.startswith("<") and value.endswith(">")):
            raise MalformedAnswer(f"{called} must be followed by a line {name}= with its value")
    for name in told.fields:
        if name not in (*form.fields, *together):
            raise MalformedAnswer(f"{called} does not take {name}=")


def _uncontradicted(ending: str, start: int, *, told: Told, shape: Shape) -> None:
    """What stands above may repeat the whole verdict word for word; any other token contradicts it."""
    verdict, head = ending[start:], ending[:start]
    more = rf"[{_BLANK}]*(?:\n|\Z)(?!\s*{shape.field.pattern})" if told.token and told.fields == {} else ""
    after = re.compile(more or rf"[{_BLANK}]*(?:\n|\Z)")
    behind = 0
    for at in _at_large(head, shape.markers, fields=() if told.token else shape.bare):
        if at < behind:
            continue
        behind = at + len(verdict)
        if head[at:behind] != verdict or not after.match(head, behind):
            line = head[at : at + 200].partition("\n")[0].rstrip()
            raise MalformedAnswer(
                f"a line reading {shortened(line)} stands outside the last verdict and differs from it: say one thing"
            )


def _at_large(text: str, markers: frozenset[str], *, fields: Sequence[str] = ()) -> list[int]:
    """Where lines that are markers stand outside of fences; a fence that is never closed hides nothing."""
    words = [*sorted(markers), *(f"{name}=" for name in fields)]
    if not any(word in text for word in words):
        return []
    lines = "|".join((*map(re.escape, sorted(markers)), *(rf"{name}=[^\n]*" for name in fields)))
    pattern = re.compile(
        r"\n(?=[A-Z`~ ])(?:(?P<fence> {0,3}(?:`{3}|~{3})[^\n]*)"
        rf"|(?P<marker>{lines})[{_BLANK}]*(?=\n|\Z))"
    )
    loose: list[int] = []
    fenced: list[int] = []
    fence = ""
    for seen in pattern.finditer(f"\n{text}"):
        if seen["fence"] is None:
            (fenced if fence else loose).append(seen.start())
            continue
        fence = fence_after(seen["fence"].rstrip(_BLANK), fence)
        if not fence:
            fenced.clear()
    return sorted((*loose, *fenced))


def _missing(ending: str, lines: Sequence[str], *, told: Told, shape: Shape) -> str:
    """Why no verdict stands at the end."""
    last = lines[-1]
    wanted = " or ".join(shape.forms)
    large = _at_large(ending, shape.markers)
    newest = ending[large[-1] :].partition("\n")[0].rstrip(_BLANK) if large else ""
    if told.fields or told.blocks:
        return f"{', '.join((*told.fields, *told.blocks))} must stand directly below a line reading {wanted}"
    if fence_after(last, ""):
        return "the output ends with a code fence: print the verdict last, outside of any fence"
    if newest.startswith("BEGIN_"):
        return f"the block that {newest} begins is never ended by a line reading {newest.replace('BEGIN', 'END', 1)}"
    if last.strip(" \t>|*`_#-.") in {marker.strip("_") for marker in shape.markers}:
        return f"a token must be a whole line, not indented, quoted or decorated: the last line is {shortened(last)}"
    if newest:
        return f"nothing may follow the verdict, but the last line is {shortened(last)}"
    return f"there is no verdict: the output must end with a line reading {wanted}, and what belongs to it"
