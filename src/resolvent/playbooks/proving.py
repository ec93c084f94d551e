"""What only execution can tell: is the problem there, who brought it, and does the change, and only that, remove it?"""

from collections.abc import Sequence

from resolvent.domain.change import Change, Check, Evidence
from resolvent.domain.gate import Reverted
from resolvent.domain.integrity import Altered, is_ci, is_test, runners, tests_added
from resolvent.domain.patch import Hunk, fewest
from resolvent.domain.verdicts import Analysis, Variants
from resolvent.engine.run import Run, together
from resolvent.errors import AgentFailed, AgentStuck, AgentTimedOut, MalformedAnswer
from resolvent.playbooks import texts
from resolvent.playbooks.work import Proof, Variations, Work

# Repeats and trials are for checks that take seconds; nobody waits hours for a second look.
REPEATING_S, TRYING_S = 120.0, 300.0


async def shown(run: Run, analysis: Analysis) -> Proof:
    """An improvement of a pull request speaks of its head; everything else speaks of the base."""
    improving = run.inputs.pull_change if analysis.verdict == "NEED_FIX" else None
    on = improving or run.inputs.base
    if analysis.reproducer is None:
        return Proof(None, on)
    check = Check.reproducing(analysis.reproducer, "reproducer")
    nths = range(1, run.policy.reproduce_runs + 1)
    return Proof(analysis.reproducer, on, tuple(await together(run.check(check, on=on, nth=nth) for nth in nths)))


async def variations(run: Run, proof: Proof) -> Variations:
    """A blind reader, who does not see the change, shows the problem in other ways; what shows nothing is dropped."""
    if not run.policy.variants or proof.reproducer is None or proof.execution != "SHOWN":
        return Variations()
    try:
        said = await run.ask(
            "variants",
            Variants,
            on=run.at(proof.on),
            issue=run.inputs.issue,
            base=proof.on,
            reproducer=proof.reproducer,
            wanted=run.policy.variants,
        )
    except (MalformedAnswer, AgentFailed, AgentTimedOut, AgentStuck) as error:
        # One proof less, and said so: the reader of the issue is no judge of the change.
        return Variations(note=f"no variants of the reproducer: {texts.one_line(error.message)}")
    others = [one for one in dict.fromkeys(said.value.reproducers) if one != proof.reproducer][: run.policy.variants]
    checks = [Check.reproducing(one, f"variant {number}") for number, one in enumerate(others, start=1)]
    evidence = await together(run.check(check, on=proof.on) for check in checks)
    kept = tuple(item.check for item in evidence if item.execution == "SHOWN")
    lost = [f"{item.check.name} {item.execution}" for item in evidence if item.execution != "SHOWN"]
    note = f"variants that show nothing without the change: {', '.join(lost)}" if lost else ""
    return Variations(kept, tuple(evidence), note)


async def introduced_by(run: Run, proof: Proof) -> Change | None:
    """The first commit that shows the problem, among the base's ancestors; None when all of them do."""
    if proof.reproducer is None:
        return None
    line = (run.inputs.base, *await run.repository.ancestors(run.inputs.base, limit=run.policy.bisect))
    check = Check.reproducing(proof.reproducer, "reproducer")

    async def shows(place: int) -> bool:
        # What cannot run there, as before the function was written, does not show the problem there.
        return line[place] == proof.on or (await run.check(check, on=line[place])).execution == "SHOWN"

    # What an improvement speaks of may have come with the pull request itself, and then no ancestor brought it.
    if not await shows(0) or await shows(len(line) - 1):
        return None
    bad, good = 0, len(line) - 1
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (middle, good) if await shows(middle) else (bad, middle)
    return line[bad]


async def parts(run: Run, work: Work) -> tuple[Change, tuple[Hunk, ...]]:
    """The parts of the whole change, and the commit it started from."""
    base = await run.repository.merge_base(run.inputs.base, work.change)
    return base, await run.repository.hunks(base, work.change)


async def altered(run: Run, old: Change, new: Change) -> tuple[Altered, ...]:
    """Every file that differs, before and after, as text."""
    paths = await run.repository.changed_paths(old, new)
    before, after = [await run.repository.contents(change, paths) for change in (old, new)]
    return tuple(Altered(path=path, old=_text(before[path]), new=_text(after[path])) for path in paths)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "replace")


def written(hunks: Sequence[Hunk]) -> dict[str, tuple[int, ...]]:
    """The lines of product code that a change wrote; where it only took some away, those around the gap."""
    lines: dict[str, tuple[int, ...]] = {}
    for hunk in hunks:
        if is_test(hunk.path) or (hunk.whole and not hunk.new_lines):
            continue
        start, many = hunk.new_start, hunk.new_lines
        found = range(start, start + many) if many else (start, start + 1)
        lines[hunk.path] = (*lines.get(hunk.path, ()), *(line for line in found if line > 0))
    return lines


async def reverted(run: Run, work: Work) -> Reverted | None:
    """The change with its fix taken out and its tests kept: whatever proves the fix must fail again there."""
    # From where the problem was shown: an improvement of a pull request leaves the rest of it as it is.
    ground = work.proof.on
    hunks = await run.repository.hunks(ground, work.change)
    tests = [hunk for hunk in hunks if is_test(hunk.path)]
    without = await run.repository.composed(ground, work.change, tests)
    if without.tree in (ground.tree, work.change.tree):
        # Nothing but the fix, and then the problem was shown on these very files; or no product code at all.
        return None
    # One that was flaky there may pass without the fix as well.
    shown = work.own if work.proof.execution == "SHOWN" else None
    checks = [*([shown] if shown else []), *work.variations.checks]
    # Tests that stand in product files went with the fix, and cannot fail without it.
    if tests_added([file for file in await altered(run, ground, work.change) if is_test(file.path)]):
        checks += [check for check in texts.configured_checks(run.inputs) if check.kind == "test"]
    evidence = await together(run.check(check, on=without) for check in checks)
    return Reverted(of=work.change.commit, without=without, evidence=tuple(evidence))


async def restored(run: Run, work: Work) -> Reverted | None:
    """The change with the Makefile and CI files of the base: whoever relaxes them must pass without that, too."""
    base, hunks = await parts(run, work)
    tests = [check for check in texts.configured_checks(run.inputs) if check.kind == "test"]
    there = await run.repository.contents(base, list(dict.fromkeys(hunk.path for hunk in hunks)))
    # A script that the base does not have cannot be its own again.
    scripts = {path for path in runners((check.command for check in tests), there) if there[path] is not None}
    judging = {path for path in there if is_ci(path) or path in scripts} - texts.meant(work.dismissed, there)
    product = [hunk for hunk in hunks if hunk.path not in judging]
    if len(product) == len(hunks) or not tests:
        return None
    without = await run.repository.composed(base, work.change, product)
    evidence = await together(run.check(check, on=without) for check in tests)
    return Reverted(of=work.change.commit, without=without, evidence=tuple(evidence))


async def repeated(run: Run, work: Work, evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Each reproducer once more, and again: what passes only sometimes is no fix."""
    again = [
        run.check(item.check, on=work.change, nth=nth)
        for item in evidence
        if item.check.kind == "reproducer"
        for nth in range(2, min(run.policy.prove_runs, int(REPEATING_S / max(item.seconds, 0.01))) + 1)
    ]
    return tuple(await together(again))


async def removable(run: Run, work: Work, evidence: Sequence[Evidence]) -> tuple[Hunk, ...]:
    """The parts of product code that no reproducer and no check needs; none when trying would take too long."""
    if run.policy.minimise == "off":
        return ()
    base, hunks = await parts(run, work)
    tests = [hunk for hunk in hunks if is_test(hunk.path)]
    code = [hunk for hunk in hunks if not is_test(hunk.path)]
    checks = tuple(dict.fromkeys(item.check for item in evidence))
    trials, each_s = run.policy.minimise_trials, sum(item.seconds for item in evidence if item.nth == 1)
    if len(code) < 2 or not work.own or each_s * trials > TRYING_S:
        return ()
    if any(finding.scope == "FIX_IN_THIS_PR" and finding.basis == "argued" for finding in work.findings):
        # What was done for an argument, no execution would miss.
        return ()

    async def needed(kept: tuple[Hunk, ...]) -> bool:
        change = await run.repository.composed(base, work.change, (*tests, *kept))
        for check in checks:
            if not (await run.check(check, on=change)).passed:
                return False
        return True

    kept = await fewest(code, needed, most=trials)
    return tuple(hunk for hunk in code if hunk not in kept)


async def without(run: Run, work: Work, spare: Sequence[Hunk]) -> Change:
    """The change as it stands, with these parts taken out by one more commit."""
    base, hunks = await parts(run, work)
    kept = [hunk for hunk in hunks if hunk not in spare]
    return await run.repository.composed(base, work.change, kept, onto=work.change)


async def size(run: Run, change: Change) -> int:
    """How many lines a change takes away and adds, in all."""
    base = await run.repository.merge_base(run.inputs.base, change)
    return sum(hunk.old_lines + hunk.new_lines for hunk in await run.repository.hunks(base, change))
