"""Steps in neutral words: what a scenario says, checked when it is given and not when a request comes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from resolvent.errors import UsageError
from resolvent.testing.model.conversation import Conversation

Block = dict[str, Any]
Told = Block | Sequence[Block]
Scenario = Sequence[Told] | Callable[[Conversation, int], Told]

BLOCKS = ("text", "think", "bash", "read", "write", "edit", "tool", "structured")
FAULTS = ("fail", "limit", "cut", "hang", "malformed")
MALFORMED = ("json", "event", "bytes", "html")
ALWAYS = -1
END = "(script ended)"
_MANNERS = ("usage", "delay", "chunk_delay", "expect")
_PARTS = {"write": {"path", "content"}, "edit": {"path", "old", "new"}}
_COUNTS = ("in", "cached", "out", "reasoning")


@dataclass(frozen=True)
class Counts:
    """The tokens a reply says it took; `cached` is a part of `taken_in`, `reasoning` one of `given_out`."""

    taken_in: int = 100
    cached: int = 0
    given_out: int = 20
    reasoning: int = 0


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong: `times` a request is hit by it, or for `seconds` from its first hit on."""

    name: str
    times: int = ALWAYS
    seconds: float = 0.0
    # Of a failure: the status, and the words of the vendor, where they are not its usual ones.
    status: int = 0
    type: str = ""
    message: str = ""
    code: str | None = None
    retry_after: float | None = None
    # rate or quota, for a limit; how it is malformed.
    kind: str = ""


@dataclass(frozen=True)
class Step:
    """One reply of the model, and how it is given."""

    blocks: tuple[Block, ...]
    fault: Fault | None = None
    usage: Counts = Counts()
    delay: float = 0.0
    chunk_delay: float = 0.0
    expect: str = ""


def parsed(told: Told, *, number: int = 0) -> Step:
    """A step as a scenario says it; UsageError names what it does not know."""
    parts = [told] if isinstance(told, Mapping) else list(told)
    manners: Block = {}
    blocks: list[Block] = []
    for part in parts:
        unknown = set(part) - {*BLOCKS, *FAULTS, *_MANNERS, "input"}
        if unknown:
            raise UsageError(
                f"a step knows no {', '.join(sorted(unknown))}",
                hint=f"one of: {', '.join((*BLOCKS, *FAULTS, *_MANNERS))}",
            )
        manners |= {name: part[name] for name in part if name in (*FAULTS, *_MANNERS)}
        block = {name: part[name] for name in part if name in (*BLOCKS, "input")}
        if block:
            blocks.append(_checked(block))
    faults = [fault(name, manners[name]) for name in FAULTS if name in manners]
    if len(faults) > 1:
        raise UsageError(f"a step goes wrong in one way: {', '.join(one.name for one in faults)}")
    return Step(
        blocks=tuple(blocks),
        fault=faults[0] if faults else None,
        usage=_counts(manners.get("usage", {}), number),
        delay=float(manners.get("delay", 0)),
        chunk_delay=float(manners.get("chunk_delay", 0)),
        expect=_regex(manners.get("expect", "")),
    )


def fault(name: str, told: Any) -> Fault:
    """One fault as it is spelled: `true`, a word, or a table."""
    if name == "malformed":
        said = {"kind": told} if isinstance(told, str) else dict(told)
        if said.get("kind") not in MALFORMED:
            raise UsageError(f"malformed how? {said.get('kind')!r}", hint=f"one of: {', '.join(MALFORMED)}")
    else:
        said = {} if told is True else dict(told)
    if name == "fail":
        said = {"status": 500, "times": 1} | said
    if name == "limit":
        said = {"kind": "rate", "seconds": 1.0} | said
    times = said.pop("times", "always")
    unknown = set(said) - set(Fault.__dataclass_fields__)
    if unknown:
        raise UsageError(f"{name} knows no {', '.join(sorted(unknown))}")
    return Fault(name=name, times=ALWAYS if times == "always" else int(times), **said)


def scenarios(told: Scenario | Mapping[str, Scenario]) -> dict[str, Scenario]:
    """Scenarios by name; a list or a callable alone is the one for everybody. Lists are checked here."""
    named = dict(told) if isinstance(told, Mapping) else {"default": told}
    for name, scenario in named.items():
        for number, one in enumerate([] if callable(scenario) else scenario):
            try:
                parsed(one)
            except (UsageError, TypeError, ValueError, AttributeError) as error:
                raise UsageError(f"scenario {name}, step {number}: {error}") from error
    return named


def filled(value: Any, cwd: str) -> Any:
    """The same with the agent's working directory in the place of `{cwd}`."""
    if isinstance(value, str):
        return value.replace("{cwd}", cwd)
    if isinstance(value, Mapping):
        return {key: filled(one, cwd) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [filled(one, cwd) for one in value]
    return value


def _checked(block: Block) -> Block:
    kinds = [name for name in BLOCKS if name in block]
    if len(kinds) != 1 or ("input" in block and kinds != ["tool"]):
        raise UsageError(f"a block is one thing, not {', '.join(block) or 'nothing'}")
    kind = kinds[0]
    if kind in _PARTS:
        if not isinstance(block[kind], Mapping) or set(block[kind]) != _PARTS[kind]:
            raise UsageError(f"{kind} takes {', '.join(sorted(_PARTS[kind]))}")
    elif kind != "structured" and not isinstance(block[kind], str):
        raise UsageError(f"{kind} takes text")
    return block


def _counts(told: Mapping[str, int], number: int) -> Counts:
    if set(told) - set(_COUNTS):
        raise UsageError(f"usage knows {', '.join(_COUNTS)}")
    usual = Counts(taken_in=100 + 10 * number)
    return Counts(
        taken_in=int(told.get("in", usual.taken_in)),
        cached=int(told.get("cached", 0)),
        given_out=int(told.get("out", usual.given_out)),
        reasoning=int(told.get("reasoning", 0)),
    )


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"expect is no regular expression: {error}") from error
    return pattern
