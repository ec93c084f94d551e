"""Resolve: from an issue or an existing pull request to a pull request with no in-scope P0/P1, proven by execution."""

from collections.abc import Sequence
from dataclasses import replace

from resolvent.domain.change import Evidence
from resolvent.domain.convergence import progress, uncritical, way_on
from resolvent.domain.decision import Question
from resolvent.domain.gate import Gate, unfixed
from resolvent.domain.outcome import Argued, Declined, Escalated, Merged, Outcome, Proven
from resolvent.domain.patch import Hunk
from resolvent.domain.verdicts import Analysis, Fix, Implementation
from resolvent.engine.run import Answer, Edited, Run, both
from resolvent.playbooks import proving, texts
from resolvent.playbooks.design import Designed, designed
from resolvent.playbooks.gating import assess
from resolvent.playbooks.publishing import publish
from resolvent.playbooks.reviewing import examined, kept, tracked
from resolvent.playbooks.telling import show_receipt, status
from resolvent.playbooks.work import Assessment, Blocked, Note, Proof, Work, stopped


async def resolve(run: Run) -> Outcome:
    """Take the subject to a proven pull request, or say with evidence why not."""
    design = await designed(run) if run.inputs.design_first else None
    work = await first_work(run, design)
    if isinstance(work, Blocked) and design is not None:
        # The design does not hold: it is made anew with what speaks against it, and tried once more.
        work = await first_work(run, await designed(run, blocker=work.reason, before=design))
    if isinstance(work, Blocked):
        return Escalated(reason=f"blocked: {work.reason}")
    return await until_clean(run, work) if isinstance(work, Work) else work


async def first_work(run: Run, design: Designed | None) -> Work | Blocked | Declined | Escalated:
    """Analyse, reproduce, and make the first change."""
    if design is not None and design.status == "NO_ACTION_NEEDED":
        return Declined(reason=design.notes or "the design finds nothing to do")
    analysis = await analyze(run, design)
    if analysis.value.no_action:
        return Declined(reason=analysis.value.reason or "the issue is not valid")
    analysis, proof = await reproduce(run, analysis, design)
    if proof.execution == "PASSED":
        return Declined(reason="not_reproduced")
    if run.policy.require_reproducer and proof.execution != "SHOWN":
        return Escalated(reason=f"no reproducer shows the problem: {proof.execution}")
    await bisect(run, proof)
    return await first_change(run, analysis, proof)


async def analyze(run: Run, design: Designed | None, *, refuted: Evidence | None = None) -> Answer[Analysis]:
    """Is the claim true, why, and how can it be shown? An existing pull request is judged on its own head."""
    given = run.inputs
    said = await run.ask(
        "analyze_pull" if given.pull_request else "analyze",
        Analysis,
        on=run.at(given.pull_change or given.base),
        issue=given.issue,
        pull=given.pull_request,
        base=given.base,
        design_comment=design.body if design else given.design_comment,
        refuted=refuted is not None,
        shows={"reproducer": refuted.tail} if refuted else {},
    )
    after = "stop" if said.value.no_action else "reproduce the problem"
    await status(run, said, Note("analyze", said.value.verdict, after, cycle=1 if refuted else 0))
    return said


async def reproduce(run: Run, analysis: Answer[Analysis], design: Designed | None) -> tuple[Answer[Analysis], Proof]:
    """Run the reproducer where the analysis says the problem is; if it passes there, the analyst gets one more try."""
    proof = await proving.shown(run, analysis.value)
    if proof.execution != "PASSED":
        return analysis, proof
    again = await analyze(run, design, refuted=proof.evidence[0])
    better = await proving.shown(run, again.value)
    # What was refuted by running it is not saved by having nothing to run.
    return (again, better) if better.execution in ("SHOWN", "FLAKY") else (analysis, proof)


async def bisect(run: Run, proof: Proof) -> None:
    """Where the policy asks for it, the issue is told which commit brought the problem."""
    if not run.policy.bisect or proof.execution != "SHOWN" or run.inputs.issue.number is None:
        return
    commit = await proving.introduced_by(run, proof)
    if commit is not None:
        marker = f"<!-- resolvent-introduced-by:{commit.commit} -->"
        body = f"{marker}\n{texts.introduced(commit, proof)}"
        await run.comment(run.inputs.issue.key, name="introduced-by", body=body, marker=marker)


async def first_change(run: Run, analysis: Answer[Analysis], proof: Proof) -> Work | Blocked | Escalated:
    """A new issue is implemented; an existing pull request is reviewed first, or improved first when it needs it."""
    pull, change = run.inputs.pull_request, run.inputs.pull_change
    if pull is None or change is None:
        return await implement(run, analysis, proof)
    others = await proving.variations(run, proof)
    work = Work(
        pull,
        change,
        analysis.branch,
        proof,
        variations=others,
        design=analysis.value.design,
        cap=run.policy.max_fix_rounds,
        history=(change,),
        evidence=(*proof.evidence, *others.evidence),
    )
    return work if analysis.value.verdict == "VALID" else await improve(run, work)


async def implement(run: Run, analysis: Answer[Analysis], proof: Proof) -> Work | Blocked | Escalated:
    """The first change, from the branch of the analysis, and the one pull request of this issue."""
    issue, value = run.inputs.issue, analysis.value
    implementing = run.edit(
        "implement",
        Implementation,
        on=analysis.branch,
        subject=texts.title(issue),
        issue=issue,
        design=value.design,
        suggestion=value.suggestion,
        reproducer=proof.reproducer,
    )
    # Blind to each other: who shows the problem in other ways must not see how it is solved.
    others, done = await both(proving.variations(run, proof), implementing)
    blocked = done.value.mode == "IMPLEMENTATION_BLOCKED"
    await status(run, done, Note("implement", done.value.mode, "stop" if blocked else "publish"))
    if blocked:
        return Blocked(done.value.reason)
    if done.change is None:
        return Escalated(reason="no_change: the agent says it is done and changed nothing")
    pull = await publish(run, done.change, reported=done.value.pull_request)
    if isinstance(pull, Escalated):
        return pull
    return Work(
        pull,
        done.change,
        done.branch,
        proof,
        variations=others,
        design=value.design,
        cap=run.policy.max_fix_rounds,
        history=(done.change,),
        evidence=(*proof.evidence, *others.evidence),
    )


async def improve(run: Run, work: Work) -> Work | Escalated:
    """The analysis of an existing pull request is what its first fix works from."""
    done = await run.edit(
        "improve",
        Fix,
        on=work.branch,
        subject=texts.improve_subject(work),
        pull=work.pull,
        issue=run.inputs.issue,
        design=work.design,
        round=work.round + 1,
    )
    return await pushed(run, work, done, step="improve")


async def until_clean(run: Run, work: Work) -> Outcome:
    """Round after round, until the gate is open or a person has to look."""
    step: Work | Outcome = work
    while isinstance(step, Work):
        step = await one_round(run, step)
    return step


async def one_round(run: Run, work: Work) -> Work | Outcome:
    """Examine the change; when nothing in scope is left the gate decides; whatever is wrong is fixed."""
    examination = await examined(run, work)
    if isinstance(examination, Escalated):
        return examination
    work = examination
    if work.blocking:
        await show_receipt(run, work, unfixed(work.change, work.blocking))
        return await fix(run, work)
    assessed = await assess(run, work)
    work = replace(work, evidence=(*work.evidence, *assessed.evidence))
    await show_receipt(run, work, assessed.gate)
    if assessed.stop:
        return assessed.stop
    if not assessed.gate.open:
        return await fix(run, work, assessed)
    spare = await proving.removable(run, work, assessed.evidence)
    if spare and run.policy.minimise == "remove":
        return await smaller(run, work, spare)
    return await land(run, work, texts.with_spare(assessed.gate, spare))


async def fix(run: Run, work: Work, assessed: Assessment | None = None) -> Work | Escalated:
    """One more round on the same pull request, as long as it leads somewhere, or a person wants it."""
    remedy = await converging(run, work)
    if remedy is not None:
        return remedy
    if work.round >= work.cap:
        text = f"{work.round} fix rounds on #{work.pull.number} and it is still not clean. Go on?"
        if await run.wait(Question(key=f"fix_cap:{work.round}", text=text, choices=("continue", "stop"))) == "stop":
            return stopped(work, "fix_cap", gate=assessed.gate if assessed else None)
        work = replace(work, cap=work.cap + max(1, run.policy.max_fix_rounds))
    done = await run.edit(
        "fix",
        Fix,
        on=work.branch,
        subject=texts.fix_subject(work.pull, work.blocking),
        pull={"number": work.pull.number, "url": work.pull.url, "head": work.pull.head},
        issue=run.inputs.issue,
        findings=work.blocking,
        blockers=assessed.gate.reasons if assessed else (),
        shows=assessed.logs if assessed else {},
        round=work.round + 1,
    )
    return await pushed(run, work, done, step="fix")


async def converging(run: Run, work: Work) -> Work | Escalated | None:
    """None when one more fix may lead somewhere; else less is asked for, the patch is cut down, or a person decides."""
    if not work.round:
        return None
    sizes = [await proving.size(run, change) for change in (work.history[0], work.change)]
    seen = progress(work.findings, rounds=work.round, lines=(sizes[0], sizes[1]))
    way = way_on(seen, work.blocking, run.policy, tried=work.tried)
    if way == "narrow":
        return await narrowed(run, work)
    if way == "minimise":
        spare = await proving.removable(run, work, work.evidence)
        tried = replace(work, tried=(*work.tried, way))
        return await smaller(run, tried, spare) if spare else tried
    if way == "ask":
        text = f"#{work.pull.number} does not come to an end: {seen}. Go on?"
        if await run.wait(Question(key=f"converge:{work.round}", text=text, choices=("continue", "stop"))) == "stop":
            return stopped(work, f"does not converge: {seen}")
    return None


async def narrowed(run: Run, work: Work) -> Work:
    """From here on only what is critical, or was executed, is fixed here; the rest is tracked."""
    later = [finding for finding in work.blocking if uncritical(finding)]
    deferred = {}
    for finding in later:
        why = f"{finding.rationale} (narrowed to what is critical: the fixes made more findings than they removed)"
        moved = finding.model_copy(update={"scope": "DEFER_CREATE_ISSUE", "rationale": why})
        deferred[finding.id] = await tracked(run, work, moved)
        await kept(run, deferred[finding.id])
    findings = tuple(deferred.get(finding.id, finding) for finding in work.findings)
    return replace(work, findings=findings, tried=(*work.tried, "narrow"))


async def smaller(run: Run, work: Work, spare: Sequence[Hunk]) -> Work | Escalated:
    """The same change without what nothing needs; it is judged anew, for it is another commit."""
    change = await proving.without(run, work, spare)
    pull = await publish(run, change, onto=work.pull)
    if isinstance(pull, Escalated):
        return pull
    return replace(work, pull=pull, change=change, branch=run.at(change), history=(*work.history, change))


async def pushed(run: Run, work: Work, done: Edited[Fix], *, step: str) -> Work | Escalated:
    """The same pull request moves to the new change; an agent without credentials loses nothing: we push."""
    await status(run, done, Note(step, done.value.mode, "review", work.round + 1), on=work.pull)
    if done.change is None:
        return stopped(work, "no_change: the fix changed nothing")
    pull = await publish(run, done.change, onto=work.pull)
    if isinstance(pull, Escalated):
        return pull
    return replace(work, pull=pull, change=done.change, branch=done.branch, history=(*work.history, done.change))


async def land(run: Run, work: Work, gate: Gate) -> Outcome:
    """Say that it is complete, and merge exactly the judged commit if the policy, or a person, wants that."""
    marker = f"<!-- resolvent-complete:{work.change.commit} -->"
    body = f"{texts.completion(run.inputs, work, gate)}\n\n{marker}"
    await run.comment(work.pull.key, name="complete", body=body, marker=marker)
    if work.pull.draft:
        await run.declare(work.pull.key, "ready")
    proven = not gate.argued and work.proof.execution == "SHOWN"
    wanted = run.policy.merge
    # Nobody merges by himself what nothing was executed for.
    if wanted == "ask" or (wanted == "auto" and not proven):
        text = f"#{work.pull.number} is {'proven' if proven else 'argued'} at {work.change}. Merge it?"
        question = Question(key=f"merge:{work.change.commit}", text=text, choices=("merge", "leave"))
        wanted = "auto" if await run.wait(question) == "merge" else "never"
    if wanted == "auto":
        pull = await run.merge(work.pull, expect=work.change)
        return Merged(
            change=work.change, pull_request=pull, gate=gate, rounds=work.round, merge_commit=pull.merge_commit
        )
    if proven:
        return Proven(change=work.change, pull_request=work.pull, gate=gate, rounds=work.round)
    return Argued(
        change=work.change, pull_request=work.pull, gate=gate, rounds=work.round, reason="; ".join(gate.notes)
    )
