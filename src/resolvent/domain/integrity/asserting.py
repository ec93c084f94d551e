"""What became of the assertions of a test: kept, moved, made stricter, or made to say less."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from resolvent.domain.integrity.altered import Hit, shown
from resolvent.domain.integrity.cases import Assertion, Case, Key

# Beyond these nobody compares each with each.
_PAIRS = 10_000
_NEAR = 50


class Ledger:
    """What all tests together hold, before and after: what only moved is missing nowhere."""

    def __init__(self, old: Iterable[Case], new: Iterable[Case]) -> None:
        self._missing = _held(old)
        self._missing.subtract(_held(new))

    def lives_on(self, assertion: Assertion) -> bool:
        """Whether the same assertion, about the same things, now stands in another test."""
        return self._missing[assertion.key, assertion.context] <= 0

    def settle(self, assertion: Assertion) -> None:
        """Count one loss as reported, so that it is reported once."""
        self._missing[assertion.key, assertion.context] -= 1


def _held(cases: Iterable[Case]) -> Counter[tuple[Key, str]]:
    return Counter((one.key, one.context) for case in cases if case.counts for one in case.assertions if one.strength)


def weakened(old: Case, new: Case, ledger: Ledger) -> list[Hit]:
    """Hits for every assertion of `old` that `new` no longer holds as strictly."""
    dropped, gained, hits = _difference(old, new)
    by_subject: dict[str, list[Assertion]] = defaultdict(list)
    for one in gained:
        by_subject[one.subject].append(one)
    rest: list[Assertion] = []
    for lost in dropped:
        if ledger.lives_on(lost):
            continue
        near = by_subject[lost.subject]
        if not near:
            rest.append(lost)
            continue
        best = max(near[:_NEAR], key=lambda one: (_verdict(lost, one) is None, one.kind == lost.kind, one.strength))
        near.remove(best)
        ledger.settle(lost)
        if said := _verdict(lost, best):
            hits.append(_hit(said, new, lost, best))
    left = [one for group in by_subject.values() for one in group]
    return hits + _replaced(rest, left, new=new, ledger=ledger)


def _difference(old: Case, new: Case) -> tuple[list[Assertion], list[Assertion], list[Hit]]:
    exact: Counter[tuple[Key, tuple[str, ...]]] = Counter((one.key, one.guards) for one in old.assertions)
    there: dict[Key, list[Assertion]] = defaultdict(list)
    kept: Counter[tuple[Key, tuple[str, ...]]] = Counter()
    for one in new.assertions:
        if kept[one.key, one.guards] < exact[one.key, one.guards]:
            kept[one.key, one.guards] += 1
        else:
            there[one.key].append(one)
    dropped: list[Assertion] = []
    hits: list[Hit] = []
    for lost in (one for one in old.assertions if one.strength):
        if kept[lost.key, lost.guards]:
            kept[lost.key, lost.guards] -= 1
        elif not there[lost.key]:
            dropped.append(lost)
        else:
            same = there[lost.key].pop()
            added = [guard for guard in same.guards if guard not in lost.guards]
            if added:
                text = f"{shown(same.source)} is now only reached under the condition {shown(added[0])}."
                hits.append(Hit(rule="weaker-assert", path=same.path, line=same.line, text=text))
    return dropped, [one for group in there.values() for one in group], hits


def _replaced(dropped: Sequence[Assertion], gained: list[Assertion], *, new: Case, ledger: Ledger) -> list[Hit]:
    """What has no successor on the same subject: one that expects the same, one that looks alike, or none."""
    hits = []
    small = len(dropped) * len(gained) <= _PAIRS
    for lost in dropped:
        alike = [one for one in gained if _expects_the_same(lost, one)] if small else []
        alike = alike or ([one for one in gained if _looks_alike(lost, one)] if small else [])
        ledger.settle(lost)
        if alike:
            best = max(alike, key=lambda one: one.strength)
            gained.remove(best)
            if best.strength < lost.strength or best.slack > lost.slack:
                hits.append(_hit("weaker-assert", new, lost, best))
            continue
        empty = next((one for one in gained if not one.strength), None)
        hits.append(_hit("weaker-assert" if empty else "dropped-assert", new, lost, empty))
    return hits


def _expects_the_same(lost: Assertion, other: Assertion) -> bool:
    return bool(lost.expected) and lost.expected == other.expected and bool(other.strength)


def _looks_alike(lost: Assertion, other: Assertion) -> bool:
    if lost.kind != other.kind or (lost.literal and lost.expected != other.expected):
        return False
    mine, theirs = set(_words(lost.subject)), set(_words(other.subject))
    return 2 * len(mine & theirs) >= len(mine | theirs) > 0


def _words(text: str) -> list[str]:
    return "".join(one if one.isalnum() or one == "_" else " " for one in text[:2000]).split()


def _verdict(lost: Assertion, best: Assertion) -> str | None:
    """The rule that an assertion breaks which took the place of another on the same subject."""
    if best.strength < lost.strength:
        return "loosened-tolerance" if best.kind == "approx" else "weaker-assert"
    if set(best.guards) - set(lost.guards):
        return "weaker-assert"
    if best.strength > lost.strength:
        return None
    if best.slack > lost.slack:
        return "loosened-tolerance"
    return _expectation(lost, best)


def _expectation(lost: Assertion, best: Assertion) -> str | None:
    if lost.kind == best.kind == "raises":
        return _raised(lost, best)
    if lost.expected == best.expected or lost.context != best.context:
        return None
    if lost.kind in ("less", "greater"):
        return _bound(lost, best)
    if lost.literal and not best.literal:
        return "weaker-assert"
    return "changed-expectation" if lost.literal or lost.shape == best.shape else None


def _raised(lost: Assertion, best: Assertion) -> str | None:
    """An exception that is expected: its type, and after ` matching ` the pattern for its message."""
    before, _, pattern = lost.expected.partition(" matching ")
    after, _, other = best.expected.partition(" matching ")
    if before == after:
        return None if not pattern or pattern == other else "changed-expectation" if other else "weaker-assert"
    if before in ("Exception", "BaseException"):
        return None
    broad = after in ("Exception", "BaseException") or before in _words(after)
    return "weaker-assert" if broad else "changed-expectation"


def _bound(lost: Assertion, best: Assertion) -> str | None:
    try:
        before, after = float(lost.expected), float(best.expected)
    except ValueError:
        return "weaker-assert" if lost.literal and not best.literal else None
    looser = after > before if lost.kind == "less" else after < before
    return "loosened-tolerance" if looser else None


_SAID = {
    "weaker-assert": "{old} became the weaker {new} in {name}.",
    "loosened-tolerance": "{old} became {new} in {name}: more passes than before.",
    "changed-expectation": "{name} expects something else of the same code: {old} became {new}.",
}


def _hit(rule: str, case: Case, lost: Assertion, best: Assertion | None) -> Hit:
    if best is None:
        text = f"{case.name} no longer holds {shown(lost.source)}."
        return Hit(rule=rule, path=case.path, line=case.line, text=text)
    text = _SAID[rule].format(old=shown(lost.source), new=shown(best.source), name=case.name)
    return Hit(rule=rule, path=best.path, line=best.line, text=text)
