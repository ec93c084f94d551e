"""Resolve: from an issue or an existing pull request to a pull request with no in-scope P0/P1, proven by execution."""
# long because: it is one chapter of the specification, and reads top to bottom as that chapter.

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from resolvent.domain.change import Change, Check, Evidence
from resolvent.domain.decision import Question
from resolvent.domain.events import FindingTriaged, GateJudged
from resolvent.domain.finding import Finding, executed, triaged
from resolvent.domain.gate import Gate, Judged, judge
from resolvent.domain.outcome import Argued, Declined, Escalated, Merged, Outcome, Proven
from resolvent.domain.subject import PullRequest, Reported, RequiredCheck
from resolvent.domain.verdicts import Analysis, Claim, Fix, Implementation, Review, Verification
from resolvent.engine.run import Answer, Edited, Run, together
from resolvent.playbooks import texts
from resolvent.playbooks.work import Assessment, Note, Proof, Work

NONE: Mapping[Finding, str] = {}


async def resolve(run: Run) -> Outcome:
    """Take the subject to a proven pull request, or say with evidence why not."""
    analysis = await analyze(run)
    if analysis.value.no_action:
        return Declined(reason=analysis.value.reason or "the issue is not valid")
    analysis, proof = await reproduce(run, analysis)
    if proof.execution == "PASSED":
        return Declined(reason="not_reproduced")
    if run.policy.require_reproducer and proof.execution != "SHOWN":
        return Escalated(reason=f"no reproducer shows the problem: {proof.execution}")
    work = await first_change(run, analysis, proof)
    return work if isinstance(work, Escalated) else await until_clean(run, work)


async def analyze(run: Run, *, refuted: Evidence | None = None) -> Answer[Analysis]:
    """Is the claim true, why, and how can it be shown? An existing pull request is judged on its own head."""
    given = run.inputs
    said = await run.ask(
        "analyze_pull" if given.pull_request else "analyze",
        Analysis,
        on=run.at(given.pull_change or given.base),
        issue=given.issue,
        pull=given.pull_request,
        base=given.base,
        design_comment=given.design_comment,
        refuted=refuted is not None,
        shows={"reproducer": refuted.tail} if refuted else {},
    )
    after = "stop" if said.value.no_action else "reproduce the problem"
    await status(run, said, Note("analyze", said.value.verdict, after, cycle=1 if refuted else 0))
    return said


async def reproduce(run: Run, analysis: Answer[Analysis]) -> tuple[Answer[Analysis], Proof]:
    """Run the reproducer where the analysis says the problem is; if it passes there, the analyst gets one more try."""
    proof = await shown(run, analysis.value)
    if proof.execution != "PASSED":
        return analysis, proof
    again = await analyze(run, refuted=proof.evidence[0])
    better = await shown(run, again.value)
    # What was refuted by running it is not saved by having nothing to run.
    return (again, better) if better.execution in ("SHOWN", "FLAKY") else (analysis, proof)


async def shown(run: Run, analysis: Analysis) -> Proof:
    """An improvement of a pull request speaks of its head; everything else speaks of the base."""
    if analysis.reproducer is None:
        return Proof(None)
    improving = run.inputs.pull_change if analysis.verdict == "NEED_FIX" else None
    check = Check.reproducing(analysis.reproducer, "reproducer")
    nths = range(1, run.policy.reproduce_runs + 1)
    evidence = await together(run.check(check, on=improving or run.inputs.base, nth=nth) for nth in nths)
    return Proof(analysis.reproducer, tuple(evidence))


async def first_change(run: Run, analysis: Answer[Analysis], proof: Proof) -> Work | Escalated:
    """A new issue is implemented; an existing pull request is reviewed first, or improved first when it needs it."""
    pull, change = run.inputs.pull_request, run.inputs.pull_change
    if pull is None or change is None:
        return await implement(run, analysis, proof)
    design, cap = analysis.value.design, run.policy.max_fix_rounds
    work = Work(pull, change, analysis.branch, proof, design=design, cap=cap)
    return work if analysis.value.verdict == "VALID" else await improve(run, work)


async def implement(run: Run, analysis: Answer[Analysis], proof: Proof) -> Work | Escalated:
    """The first change, from the branch of the analysis, and the one pull request of this issue."""
    issue, value = run.inputs.issue, analysis.value
    done = await run.edit(
        "implement",
        Implementation,
        on=analysis.branch,
        subject=texts.title(issue),
        issue=issue,
        design=value.design,
        suggestion=value.suggestion,
        reproducer=proof.reproducer,
    )
    blocked = done.value.mode == "IMPLEMENTATION_BLOCKED"
    await status(run, done, Note("implement", done.value.mode, "stop" if blocked else "publish"))
    if blocked:
        return Escalated(reason=f"blocked: {done.value.reason}")
    if done.change is None:
        return Escalated(reason="no_change: the agent says it is done and changed nothing")
    pull = await publish(run, done.change, reported=done.value.pull_request)
    if isinstance(pull, Escalated):
        return pull
    return Work(pull, done.change, done.branch, proof, design=value.design, cap=run.policy.max_fix_rounds)


async def improve(run: Run, work: Work) -> Work | Escalated:
    """The analysis of an existing pull request is what its first fix works from."""
    done = await run.edit(
        "improve",
        Fix,
        on=work.branch,
        subject=f"Improve #{work.pull.number}: {work.design.root_cause if work.design else work.pull.title}"[:100],
        pull=work.pull,
        issue=run.inputs.issue,
        design=work.design,
        round=work.round + 1,
    )
    return await pushed(run, work, done, step="improve")


async def until_clean(run: Run, work: Work) -> Outcome:
    """Review, triage, fix; when nothing in scope is left the gate decides, and what shuts it is fixed too."""
    while True:
        findings = await review(run, work)
        work = replace(work, findings=(*work.findings, *findings))
        blocking = tuple(finding for finding in findings if finding.scope == "FIX_IN_THIS_PR")
        assessed = None if blocking else await assess(run, work)
        if assessed is not None and (assessed.stop or assessed.gate.open):
            return assessed.stop or await land(run, work, assessed.gate)
        step = await fix(run, work, blocking=blocking, assessed=assessed)
        if isinstance(step, Escalated):
            return step
        work = step


async def review(run: Run, work: Work) -> tuple[Finding, ...]:
    """Ask a reviewer about this very commit, execute what it claims, and triage what is left."""
    said = await ask_reviewer(run, work)
    after = "verify" if said.value.claims else "gate"
    await status(run, said, Note("review", said.value.verdict, after, work.round), on=work.pull)
    ran = await executed_claims(run, work, said.value.claims, first=len(work.findings) + 1)
    disputed = {finding: log for finding, log in ran if finding.on_head == "PASSED"}
    findings = [finding for finding, _ in ran]
    if disputed:
        again = await ask_reviewer(run, work, disputed=disputed)
        first = len(work.findings) + len(findings) + 1
        restated = await executed_claims(run, work, again.value.claims, first=first)
        findings += [finding for finding, _ in restated if finding.on_head == "SHOWN"]
    return await triage(run, work, tuple(findings)) if findings else ()


async def ask_reviewer(run: Run, work: Work, *, disputed: Mapping[Finding, str] = NONE) -> Answer[Review]:
    """The same commit is never reviewed twice for the same question; a disputed claim is a new question."""
    return await run.ask(
        "review",
        Review,
        on=work.branch,
        pull={"number": work.pull.number, "url": work.pull.url, "title": work.pull.title},
        issue=run.inputs.issue,
        base=run.inputs.base,
        change=work.change,
        disputed=tuple(disputed),
        shows={finding.id: log for finding, log in disputed.items()},
    )


async def executed_claims(
    run: Run, work: Work, claims: tuple[Claim, ...], *, first: int
) -> tuple[tuple[Finding, str], ...]:
    """Each claim with a reproducer is run on the change, which printed this, and on the base, in forks of their own."""

    async def one(number: int, claim: Claim) -> tuple[Finding, str]:
        finding = Finding(id=f"F{number}", claim=claim, commit=work.change.commit, found_in_round=work.round)
        if claim.reproducer is None:
            return finding, ""
        check = Check.reproducing(claim.reproducer, f"reproducer {finding.id}")
        head, base = await together(run.check(check, on=commit) for commit in (work.change, run.inputs.base))
        return executed(finding, head=head, base=base, own_signature=work.proof.signature), head.tail

    numbered = enumerate(dict.fromkeys(claims), start=first)
    return tuple(await together(one(number, claim) for number, claim in numbered))


async def triage(run: Run, work: Work, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """A verifier places what execution left open; deferred findings become issues; one comment per head says it all."""
    left = tuple(finding for finding in findings if not finding.settled)
    words = {}
    if left:
        said = await run.ask(
            "verify",
            Verification,
            on=work.branch,
            pull={"number": work.pull.number, "url": work.pull.url},
            issue=run.inputs.issue,
            base=run.inputs.base,
            change=work.change,
            findings=left,
        )
        words = {item.finding: item for item in said.value.triage}
        await status(run, said, Note("verify", said.value.verdict, "fix or gate", work.round), on=work.pull)
    placed = [await tracked(run, work, triaged(finding, words.get(finding.id))) for finding in findings]
    for finding in placed:
        await run.keep(finding)
        placing = FindingTriaged(
            finding=finding.id,
            severity=finding.claim.severity,
            title=finding.claim.title,
            basis=finding.basis,
            origin=finding.origin,
            scope=finding.scope or "",
        )
        await run.tell(placing, key=f"finding:{finding.id}")
    body = texts.verification(placed, work.change)
    marker = f"<!-- pantheon-verify:{work.change.commit} -->"
    await run.comment(work.pull.key, name="verify", body=f"{marker}\n{body}", marker=marker)
    return tuple(placed)


async def tracked(run: Run, work: Work, finding: Finding) -> Finding:
    """A deferred finding has an open issue: the one that exists, with the new evidence, or a new one."""
    if finding.scope != "DEFER_CREATE_ISSUE":
        return finding
    issue, created = await run.file_issue(
        title=f"[{finding.claim.severity}] {finding.claim.title}", body=texts.deferred(finding, work.pull)
    )
    if not created:
        marker = f"<!-- resolvent-evidence:{work.pull.key}:{finding.id} -->"
        body = f"{marker}\n{texts.deferred(finding, work.pull)}"
        await run.comment(issue.key, name="evidence", body=body, marker=marker)
    return finding.model_copy(update={"issue": issue.url})


async def fix(run: Run, work: Work, *, blocking: tuple[Finding, ...], assessed: Assessment | None) -> Work | Escalated:
    """One more round on the same pull request, as long as the cap or a person allows it."""
    if work.round >= work.cap:
        text = f"{work.round} fix rounds on #{work.pull.number} and it is still not clean. Go on?"
        if await run.wait(Question(key=f"fix_cap:{work.round}", text=text, choices=("continue", "stop"))) == "stop":
            return stopped(work, "fix_cap", gate=assessed.gate if assessed else None)
        work = replace(work, cap=work.cap + max(1, run.policy.max_fix_rounds))
    done = await run.edit(
        "fix",
        Fix,
        on=work.branch,
        subject=texts.fix_subject(work.pull, blocking),
        pull={"number": work.pull.number, "url": work.pull.url, "head": work.pull.head},
        issue=run.inputs.issue,
        findings=blocking,
        blockers=assessed.gate.reasons if assessed else (),
        shows=assessed.logs if assessed else {},
        round=work.round + 1,
    )
    return await pushed(run, work, done, step="fix")


async def pushed(run: Run, work: Work, done: Edited[Fix], *, step: str) -> Work | Escalated:
    """The same pull request moves to the new change; an agent without credentials loses nothing: we push."""
    work = replace(work, round=work.round + 1)
    await status(run, done, Note(step, done.value.mode, "review", work.round), on=work.pull)
    if done.change is None:
        return stopped(work, "no_change: the fix changed nothing")
    pull = await publish(run, done.change, onto=work.pull)
    if isinstance(pull, Escalated):
        return pull
    return replace(work, pull=pull, change=done.change, branch=done.branch)


async def publish(
    run: Run, change: Change, *, onto: PullRequest | None = None, reported: Reported | None = None
) -> PullRequest | Escalated:
    """One pull request per subject: ours, the one given, or one an agent made that the forge confirms."""
    surface = [path for path in await run.changed_paths(change) if texts.runs_elsewhere(path)]
    if surface and run.policy.exec_surface == "ask":
        text = f"{change} changes what runs on other machines: {', '.join(surface)}. Push it?"
        question = Question(key=f"exec_surface:{change.commit}", text=text, choices=("push", "stop"))
        if await run.wait(question) == "stop":
            return Escalated(reason=f"not pushed: {', '.join(surface)}", change=change, pull_request=onto)
    onto = onto or await adopted(run, change, reported)
    if onto:
        seen = await run.observe("pushed", head=onto.head, known=onto.head_commit, tree=change.tree)
        where = {"head": onto.head, "expect": seen["expect"], "number": onto.number}
    else:
        seen = await run.observe("head", wanted=f"resolvent/{run.inputs.issue.key}")
        where = {name: seen[name] for name in ("head", "expect", "number")}
    issue = run.inputs.issue
    return await run.publish(change, **where, text=(texts.title(issue), texts.pull_body(issue, run.id)))


async def adopted(run: Run, change: Change, reported: Reported | None) -> PullRequest | None:
    """What an agent says it opened counts when it is there and holds the very files that were imported."""
    if reported is None:
        return None
    seen = await run.observe("reported_pull", number=reported.number, head=reported.head)
    if seen["pull_request"] is None or seen["tree"] != change.tree:
        return None
    return PullRequest.model_validate(seen["pull_request"])


async def assess(run: Run, work: Work) -> Assessment:
    """Everything the gate looks at, on one commit: reproducers, build, test, smoke, CI, and a clean merge."""
    checks = (*work.reproducers, *texts.configured_checks(run.inputs))
    evidence = await together(run.check(check, on=work.change) for check in checks)
    heard = await ci_says(run, work)
    if isinstance(heard, Escalated):
        return Assessment(Gate(change=work.change), stop=heard)
    required, flaky = heard
    seen = await run.observe("base", change=work.change)
    case = Judged(
        change=work.change,
        checks=checks,
        evidence=tuple(evidence),
        findings=tuple(finding for finding in work.findings if finding.found_in_round == work.round),
        required=required,
        flaky=flaky,
        conflicts=tuple(seen["conflicts"]),
    )
    gate = judge(case, run.policy)
    said = GateJudged(change=work.change.commit, open=gate.open, reasons=gate.reasons, notes=gate.notes)
    await run.tell(said, key=f"gate:{work.change.commit}")
    stop = stopped(work, f"flaky_ci: {', '.join(flaky)}", gate=gate) if flaky and run.policy.ci_required else None
    return Assessment(gate, logs=texts.logs(case), stop=stop)


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


async def land(run: Run, work: Work, gate: Gate) -> Outcome:
    """Say that it is complete, and merge exactly the judged commit if the policy, or a person, wants that."""
    marker = f"<!-- resolvent-complete:{work.change.commit} -->"
    body = f"{texts.completion(run.inputs, work, gate)}\n\n{marker}"
    await run.comment(work.pull.key, name="complete", body=body, marker=marker)
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


async def status(run: Run, said: Answer[Any] | Edited[Any], note: Note, *, on: PullRequest | None = None) -> None:
    """After every step one comment says where the run is: on the issue until there is a pull request."""
    target = (on or run.inputs.pull_request or run.inputs.issue).key
    if not run.policy.status_comments or target.startswith("file-"):
        return
    marker = f"<!-- pantheon-resolve-status:step-{note.step}:cycle-{note.cycle} -->"
    body = texts.status(note, said.branch.id, said.agent)
    await run.comment(target, name=f"status-{note.step}", body=f"{marker}\n{body}")


def stopped(work: Work, reason: str, *, gate: Gate | None = None) -> Escalated:
    """A person has to look, and sees how far it came."""
    return Escalated(reason=reason, change=work.change, pull_request=work.pull, gate=gate, rounds=work.round)
