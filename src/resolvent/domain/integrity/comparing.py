"""Tests before and after a change: which are gone, skipped, emptied or weaker."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Hashable, Sequence

from resolvent.domain.integrity.altered import Hit, shown
from resolvent.domain.integrity.asserting import Ledger, weakened
from resolvent.domain.integrity.cases import Case, Key
from resolvent.domain.integrity.kinds import among_tests


def compared(old: Sequence[Case], new: Sequence[Case]) -> list[Hit]:
    """Hits for every test of `old` that the tests of `new` do not make up for, in whatever file they stand."""
    pairs, gone = paired(old, new)
    ledger = Ledger(old, new)
    hits: list[Hit] = []
    for before, after in pairs:
        hits += _changed(before, after, ledger)
    for case in gone:
        # A test that held nothing, or was never run, is no loss; one whose every assertion moved is none either.
        moved = case.assertions and all(ledger.lives_on(one) for one in case.assertions)
        if case.counts and not moved:
            hits.append(Hit(rule="removed-test", path=case.path, line=case.line, text=f"The test {case.name} is gone."))
    return hits


def added(old: Sequence[Case], new: Sequence[Case]) -> list[Case]:
    """The tests of `new` that can fail and are no successor of one in `old`, or hold more than that one did."""
    pairs, _ = paired(old, new)
    held = {one.key for case in old for one in case.assertions}
    known = {(after.path, after.name) for before, after in pairs if not _grown(before, after, held)}
    return [case for case in new if (case.path, case.name) not in known and case.counts]


def _grown(before: Case, after: Case, held: Container[Key]) -> bool:
    """Whether a test holds more than before, and among it what no test held: written anew is not yet more."""
    strong = [[one.key for one in case.assertions if one.strength] for case in (before, after)]
    return len(strong[1]) > len(strong[0]) and any(key not in held for key in strong[1])


def paired(old: Sequence[Case], new: Sequence[Case]) -> tuple[list[tuple[Case, Case]], list[Case]]:
    """Each test with its successor: by place and name, by name elsewhere, by what it does, by what it holds."""
    pairs: list[tuple[Case, Case]] = []
    before, after = list(old), list(new)
    for sign in (
        lambda case: (case.path, case.name),
        lambda case: (case.name, case.body),
        lambda case: case.body or None,
        lambda case: case.name,
        _holdings,
        lambda case: case.name.rpartition(".")[2],
    ):
        before, after = _matched(before, after, sign=sign, pairs=pairs)
    return pairs, before


def _holdings(case: Case) -> Hashable:
    held = Counter((one.key, one.context) for one in case.assertions)
    return frozenset(held.items()) or None


def _matched(
    before: Sequence[Case], after: Sequence[Case], *, sign: Callable[[Case], Hashable], pairs: list[tuple[Case, Case]]
) -> tuple[list[Case], list[Case]]:
    waiting: dict[Hashable, list[Case]] = defaultdict(list)
    for case in reversed(after):
        waiting[sign(case)].append(case)
    left = []
    for case in before:
        key = sign(case)
        if key is not None and waiting[key]:
            pairs.append((case, waiting[key].pop()))
        else:
            left.append(case)
    unpaired = {id(case) for group in waiting.values() for case in group}
    return left, [case for case in after if id(case) in unpaired]


def _changed(before: Case, after: Case, ledger: Ledger) -> list[Hit]:
    if before.collected and not after.collected:
        text = f"The runner no longer takes up {before.name}: it is now {after.name} in {after.path}."
        return [Hit(rule="removed-test", path=after.path, line=after.line, text=text)]
    if before.counts and among_tests(before.path) and not among_tests(after.path):
        # Whatever runs the tests looks where they were.
        text = f"{before.name} was moved from {before.path} to {after.path}, away from the other tests."
        return [Hit(rule="removed-test", path=after.path, line=after.line, text=text)]
    if skipped := _skipped(before, after):
        return skipped
    if before.counts and not after.body:
        text = f"{after.name} no longer does anything."
        return [Hit(rule="dropped-assert", path=after.path, line=after.line, text=text)]
    return [*weakened(before, after, ledger), *_longer(before, after)]


def _skipped(before: Case, after: Case) -> list[Hit]:
    known = {(skip.what, skip.condition) for skip in before.skips}
    if any(not condition for _, condition in known):
        return []
    new = [skip for skip in after.skips if (skip.what, skip.condition) not in known]
    return [
        Hit(
            rule="skipped-test",
            path=after.path,
            line=skip.line,
            text=f"{after.name} is no longer run or no longer counts"
            + (f" when {shown(skip.condition)}: " if skip.condition else ": ")
            + f"{shown(skip.what)} is new.",
        )
        for skip in new[:1]
    ]


def _longer(before: Case, after: Case) -> list[Hit]:
    known = {place: number for place, number, _ in before.limits}
    return [
        Hit(
            rule="loosened-tolerance",
            path=after.path,
            line=line,
            text=f"{after.name} waits longer than before: {shown(place)} went from {known[place]:g} to {number:g}.",
        )
        for place, number, line in after.limits
        if place in known and number > known[place]
    ]
