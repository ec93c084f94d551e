"""The gate of one change: everything it looks at, all of it about that one commit."""

from resolvent.domain.change import Check, Evidence
from resolvent.domain.decision import Question
from resolvent.domain.events import GateJudged
from resolvent.domain.gate import Gate, Judged, judge
from resolvent.domain.outcome import Escalated
from resolvent.domain.subject import RequiredCheck
from resolvent.engine.run import Run, together
from resolvent.playbooks import proving, texts
from resolvent.playbooks.work import Assessment, Work, stopped


async def assess(run: Run, work: Work) -> Assessment:
    """Reproducers, build, test, smoke, CI, a clean merge; and, when nothing speaks against it, the last proofs."""
    evidence = await executed(run, work)
    heard = await ci_says(run, work)
    if isinstance(heard, Escalated):
        return Assessment(Gate(change=work.change), stop=heard)
    case = await observed(run, work, evidence, heard)
    gate = judge(case, run.policy)
    if gate.open:
        case = await proven(run, work, case)
        gate = judge(case, run.policy)
    said = GateJudged(change=work.change.commit, open=gate.open, reasons=gate.reasons, notes=gate.notes)
    await run.tell(said, key=f"gate:{work.change.commit}")
    without = [item for part in (case.reverted, case.restored) if part for item in part.evidence]
    return Assessment(
        gate, (*case.evidence, *without), logs=texts.logs(case), stop=_reason_to_stop(run, work, case, gate)
    )


async def executed(run: Run, work: Work) -> tuple[Evidence, ...]:
    """Every check on this commit; the issue's own reproducer is watched, whether it executes what was written."""
    _, hunks = await proving.parts(run, work)
    watch = proving.written(hunks)

    async def one(check: Check) -> Evidence:
        watched = watch if check == work.own else {}
        return await run.check(check, on=work.change, watch=watched)

    return tuple(await together(one(check) for check in (*work.reproducers, *texts.configured_checks(run.inputs))))


async def observed(
    run: Run,
    work: Work,
    evidence: tuple[Evidence, ...],
    heard: tuple[tuple[RequiredCheck, ...], tuple[str, ...]],
) -> Judged:
    """What the forge says of it now."""
    seen = await run.observe("base", change=work.change, head=work.pull.head)
    _, hunks = await proving.parts(run, work)
    return Judged(
        change=work.change,
        checks=tuple(item.check for item in evidence),
        evidence=evidence,
        findings=work.current,
        required=heard[0],
        flaky=heard[1],
        conflicts=tuple(seen["conflicts"]),
        head=seen["head"],
        changed_lines=sum(hunk.old_lines + hunk.new_lines for hunk in hunks),
        shown=work.proof.execution == "SHOWN",
        notes=tuple(filter(None, (work.variations.note,))),
    )


async def proven(run: Run, work: Work, case: Judged) -> Judged:
    """The last proofs, which are paid for only when everything else is well: again and again, and without the fix."""
    again = await proving.repeated(run, work, case.evidence)
    reverted, restored = await proving.reverted(run, work), await proving.restored(run, work)
    # Made anew, not copied: evidence about another commit is refused here as well.
    return Judged(**(dict(case) | {"evidence": (*case.evidence, *again), "reverted": reverted, "restored": restored}))


def _reason_to_stop(run: Run, work: Work, case: Judged, gate: Gate) -> Escalated | None:
    """No fix of ours helps against a head that somebody else moved, or against CI that is red without us."""
    if case.head not in ("", work.change.commit):
        return stopped(work, f"head_moved: #{work.pull.number} is at {case.head[:10]}", gate=gate)
    if case.flaky and run.policy.ci_required:
        return stopped(work, f"flaky_ci: {', '.join(case.flaky)}", gate=gate)
    return None


async def ci_says(run: Run, work: Work) -> tuple[tuple[RequiredCheck, ...], tuple[str, ...]] | Escalated:
    """The required checks, and those red on the base too; green on a rerun is no fault either, and both are tracked."""
    required = await settled(run, work)
    if isinstance(required, Escalated):
        return required
    red = [check for check in required if check.state == "failed"]
    if not red or not run.policy.ci_required:
        return required, ()
    base = await run.observe("checks_on_base", commit=run.inputs.base.commit)
    red_on_base = [check["name"] for check in base["checks"] if check["state"] == "failed"]
    ours = [check for check in red if check.name not in red_on_base]
    for check in ours:
        await run.observe("rerun", check=check)
    final = await settled(run, work, again=True) if ours else required
    if isinstance(final, Escalated):
        return final
    passed = [check.name for check in final if check.state == "passed"]
    for check in red:
        on_base = check.name in red_on_base
        if on_base or check.name in passed:
            title = f"Flaky required check: {check.name}"
            await run.file_issue(title=title, body=texts.flaky(check, work.pull, on_base=on_base))
    return final, tuple(check.name for check in red if check.name in red_on_base)


async def settled(run: Run, work: Work, *, again: bool = False) -> tuple[RequiredCheck, ...] | Escalated:
    """Wait for the required checks as long as the policy says, then ask a person; no required checks is an answer."""
    nth = 0
    while True:
        nth += 1
        seen = await run.observe("required_checks", commit=work.change.commit, again=again, nth=nth)
        checks = tuple(RequiredCheck.model_validate(check) for check in seen["checks"])
        pending = [check.name for check in checks if check.state == "pending"]
        if not pending or not run.policy.ci_required:
            return checks
        text = f"{', '.join(pending)} of #{work.pull.number} did not end in time. Wait again?"
        key = f"ci_pending:{work.change.commit}:{'rerun' if again else 'first'}:{nth}"
        if await run.wait(Question(key=key, text=text, choices=("wait", "stop"))) == "stop":
            return stopped(work, f"ci_pending: {', '.join(pending)}")
