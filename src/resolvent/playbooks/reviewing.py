"""Examine one change: our own rules first, then a reviewer whose claims are executed, placed and told."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from resolvent.domain.change import Change, Check, summed
from resolvent.domain.decision import Question
from resolvent.domain.events import FindingTriaged
from resolvent.domain.finding import Finding, barred, cited, executed, recurring, triaged
from resolvent.domain.integrity import Hit, inspected
from resolvent.domain.outcome import Escalated
from resolvent.domain.verdicts import Claim, Review, Verification
from resolvent.engine.run import Answer, Run, together
from resolvent.playbooks import texts
from resolvent.playbooks.proving import altered
from resolvent.playbooks.telling import status
from resolvent.playbooks.work import Note, Work, stopped

NONE: Mapping[Finding, str] = {}


async def examined(run: Run, work: Work) -> Work | Escalated:
    """The work with whatever is found in its change; a change that weakens its own tests is not worth a review."""
    inspected_work = await inspect(run, work)
    if isinstance(inspected_work, Escalated) or inspected_work.blocking:
        return inspected_work
    return await review(run, inspected_work)


async def inspect(run: Run, work: Work) -> Work | Escalated:
    """Test integrity: each hit blocks, no agent can dismiss it, and a person only with a reason that is posted."""
    if any(finding.rule for finding in work.current):
        # Known of this very commit: it is examined again because less is asked of it now.
        return work
    base = await run.repository.merge_base(run.inputs.base, work.change)
    hits = [hit for hit in inspected(await altered(run, base, work.change)) if texts.hit_key(hit) not in work.dismissed]
    before = [(finding.rule, finding.claim.title) for finding in work.findings if finding.rule]
    # Told once, the agent may have taken it back. What it left is a person's to judge.
    stubborn = [hit for hit in hits if (hit.rule, texts.hit_claim(hit).title) in before]
    if stubborn:
        decided = await judged_by_a_person(run, work, stubborn)
        if isinstance(decided, Escalated):
            return decided
        work = decided
        hits = [hit for hit in hits if texts.hit_key(hit) not in work.dismissed]
    found = [_hit(work, hit, number) for number, hit in enumerate(hits, start=work.next_number)]
    for finding in found:
        await kept(run, finding)
    return replace(work, findings=(*work.findings, *found))


def _hit(work: Work, hit: Hit, number: int) -> Finding:
    finding = Finding(
        id=f"F{number}",
        claim=texts.hit_claim(hit),
        valid=True,
        origin="introduced",
        basis="executed",
        scope="FIX_IN_THIS_PR",
        rationale="found by a rule in the change itself: no agent can dismiss it",
        rule=hit.rule,
        commit=work.change.commit,
        found_in_round=work.round,
        created_in_round=work.round,
    )
    return recurring(finding, work.findings)


async def judged_by_a_person(run: Run, work: Work, hits: Sequence[Hit]) -> Work | Escalated:
    """The same weakening is there after a fix: is it meant to be?"""
    lines = "\n".join(f"- {hit.rule}: {hit.text} ({hit.path}:{hit.line})" for hit in hits)
    question = Question(
        key=f"integrity:{work.change.commit}",
        text=f"#{work.pull.number} still weakens its own checks:\n{lines}\nIs that meant to be?",
        choices=("dismiss", "fix", "stop"),
        explained=("dismiss",),
    )
    decision = await run.decide(question)
    if decision.answer == "stop":
        return stopped(work, f"test integrity: {', '.join(dict.fromkeys(hit.rule for hit in hits))}")
    if decision.answer == "fix":
        return work
    marker = f"<!-- resolvent-dismissed:{work.change.commit} -->"
    body = f"{marker}\n{texts.dismissal(hits, decision)}"
    await run.comment(work.pull.key, name="dismissed", body=body, marker=marker)
    return replace(work, dismissed=(*work.dismissed, *map(texts.hit_key, hits)))


async def review(run: Run, work: Work) -> Work:
    """Ask a reviewer about this very commit, execute what it claims, and triage what is left; never twice."""
    known = [change for change in work.reviewed if change.tree == work.change.tree]
    if known:
        return await found_again(run, work, known[-1])
    said = await ask_reviewer(run, work)
    after = "verify" if said.value.claims else "gate"
    await status(run, said, Note("review", said.value.verdict, after, work.round), on=work.pull)
    ran = await executed_claims(run, work, said.value.claims)
    disputed = {finding: log for finding, log in ran if finding.on_head == "PASSED"}
    found = [finding for finding, _ in ran]
    if disputed:
        again = await ask_reviewer(run, work, disputed=disputed)
        so_far = replace(work, findings=(*work.findings, *found))
        tried = {one.reproducer for one in said.value.claims}
        other = tuple(one for one in again.value.claims if one.reproducer not in tried)
        restated = await executed_claims(run, so_far, other)
        found += [finding for finding, _ in restated if finding.on_head == "SHOWN"]
    placed = await triage(run, work, tuple(found)) if found else ()
    return replace(work, findings=(*work.findings, *placed), reviewed=(*work.reviewed, work.change))


async def found_again(run: Run, work: Work, before: Change) -> Work:
    """The files of a reviewed change under another commit: nobody looks twice, and what was to be fixed is back."""
    if before == work.change:
        return work
    open_then = [one for one in work.findings if one.commit == before.commit and one.scope == "FIX_IN_THIS_PR"]
    found = []
    for number, one in enumerate((one for one in open_then if not one.rule), start=work.next_number):
        here = {"id": f"F{number}", "commit": work.change.commit}
        now = one.model_copy(update={**here, "found_in_round": work.round, "created_in_round": work.round})
        found.append(recurring(now, work.findings))
        await kept(run, found[-1])
    return replace(work, findings=(*work.findings, *found), reviewed=(*work.reviewed, work.change))


async def ask_reviewer(run: Run, work: Work, *, disputed: Mapping[Finding, str] = NONE) -> Answer[Review]:
    """A later review sees what changed since, and what was open then; a disputed claim is a new question."""
    since = work.reviewed[-1] if work.reviewed else None
    open_then = [finding for finding in work.findings if since and finding.commit == since.commit]
    return await run.ask(
        "review",
        Review,
        on=work.branch,
        pull={"number": work.pull.number, "url": work.pull.url, "title": work.pull.title},
        issue=run.inputs.issue,
        base=run.inputs.base,
        change=work.change,
        since=since,
        open=[finding for finding in open_then if finding.scope == "FIX_IN_THIS_PR"],
        disputed=tuple(disputed),
        shows={finding.id: log for finding, log in disputed.items()},
    )


async def executed_claims(run: Run, work: Work, claims: tuple[Claim, ...]) -> tuple[tuple[Finding, str], ...]:
    """Each claim with a reproducer is run on the change, which printed this, and on the base, in forks of their own."""

    async def one(number: int, claim: Claim) -> tuple[Finding, str]:
        finding = Finding(id=f"F{number}", claim=claim, commit=work.change.commit, found_in_round=work.round)
        if claim.reproducer is None:
            return finding, ""
        check = Check.reproducing(claim.reproducer, f"reproducer {finding.id}")
        head, base = await together(run.check(check, on=commit) for commit in (work.change, run.inputs.base))
        again = range(2, run.policy.reproduce_runs + 1) if head.execution == "SHOWN" else ()
        heads = (head, *await together(run.check(check, on=work.change, nth=nth) for nth in again))
        return executed(finding, head=summed(heads), base=base, own_signature=work.proof.signature), head.tail

    numbered = enumerate(dict.fromkeys(claims), start=work.next_number)
    ran = await together(one(number, claim) for number, claim in numbered)
    return tuple([(await traced(run, work, finding), log) for finding, log in ran])


async def traced(run: Run, work: Work, finding: Finding) -> Finding:
    """Hold it to the evidence bar, and find out which round's fix made it, and whether it was fixed before."""
    places = cited(finding.claim)
    contents = await run.repository.contents(work.change, list(dict.fromkeys(place.path for place in places)))
    lines = {path: None if text is None else text.count(b"\n") + 1 for path, text in contents.items()}
    finding = recurring(barred(finding, lines), work.findings)
    return finding.model_copy(update={"created_in_round": await made_in_round(run, work, finding)})


async def made_in_round(run: Run, work: Work, finding: Finding) -> int:
    """The fix that wrote the lines, or did what the reproducer shows; 0 when it was there before any."""
    if not work.round or finding.valid is False:
        return 0
    if finding.on_head == "SHOWN" and finding.claim.reproducer:
        check = Check.reproducing(finding.claim.reproducer, f"reproducer {finding.id}")
        before = await run.check(check, on=work.history[-2])
        if before.execution in ("PASSED", "BROKEN"):
            return work.round
    rounds = {change.commit: number for number, change in enumerate(work.history)}
    blamed = [
        await run.repository.blamed(work.change, place.path, place.line) for place in cited(finding.claim) if place.line
    ]
    return max((rounds.get(commit or "", 0) for commit in blamed), default=0)


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
        await kept(run, finding)
    marker = f"<!-- pantheon-verify:{work.change.commit} -->"
    body = f"{marker}\n{texts.verification(placed, work.change)}"
    await run.comment(work.pull.key, name="verify", body=body, marker=marker)
    return tuple(placed)


async def tracked(run: Run, work: Work, finding: Finding) -> Finding:
    """A deferred finding has an open issue: the one that exists, with the new evidence, or a new one."""
    if finding.scope != "DEFER_CREATE_ISSUE":
        return finding
    issue, created = await run.file_issue(
        title=f"[{finding.claim.severity}] {texts.plain_title(finding)}", body=texts.deferred(finding, work.pull)
    )
    if not created:
        marker = f"<!-- resolvent-evidence:{work.pull.key}:{finding.id} -->"
        body = f"{marker}\n{texts.deferred(finding, work.pull)}"
        await run.comment(issue.key, name="evidence", body=body, marker=marker)
    return finding.model_copy(update={"issue": issue.url})


async def kept(run: Run, finding: Finding) -> None:
    """Put a placed finding on the record, and tell whoever watches."""
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
