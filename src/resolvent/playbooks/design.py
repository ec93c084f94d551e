"""Design: a solution that was drafted, reviewed against the code and agreed upon before any code is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resolvent.domain.design import DesignDraft, Designed, DesignReview, DesignRevision, SolutionDesign
from resolvent.domain.events import DesignSettled
from resolvent.domain.job import Branch
from resolvent.domain.outcome import Argued, Declined, Outcome
from resolvent.domain.subject import Comment
from resolvent.engine.requests import digest
from resolvent.engine.run import Answer, Run
from resolvent.playbooks import design_texts as texts
from resolvent.playbooks.design_texts import ROUNDS, Note, Round

__all__ = ["Designed", "design", "designed"]


@dataclass(frozen=True)
class Proposal:
    """A design, and the branch it was drafted in."""

    design: SolutionDesign
    branch: Branch


async def design(run: Run) -> Outcome:
    """Agree on a design and stop there: nothing is coded, so nothing is proven."""
    made = await designed(run)
    if made.status == "NO_ACTION_NEEDED":
        return Declined(reason=made.notes)
    return Argued(reason=f"DESIGN_STATUS={made.status}")


async def designed(run: Run, *, blocker: str = "", before: Designed | None = None) -> Designed:
    """Draft, review and revise, three rounds at most; anew when a blocker turned up in the design `before`."""
    # The comments of a design that did not hold stay as they are: its rounds are counted on.
    done = before.rounds if before else ROUNDS if blocker else 0
    at = Round(done + 1, before=done)
    drafted = await draft(run, at, blocker=blocker, former=before.body if before else "")
    if drafted.value.design is None:
        return await settle(run, Designed(status="NO_ACTION_NEEDED", notes=drafted.value.reason, rounds=done))
    proposal = Proposal(drafted.value.design, drafted.branch)
    while True:
        said = await review(run, at, proposal)
        if said.verdict == "DESIGN_APPROVED":
            return await finish(run, at, proposal, approved=said)
        if at.number == at.last:
            return await finish(run, at, proposal, concerns=said.feedback)
        at = at.next
        proposal = await revise(run, at, proposal, feedback=said.feedback)


async def draft(run: Run, at: Round, *, blocker: str, former: str) -> Answer[DesignDraft]:
    """From the baseline: what is wrong, and what is to be done about it, if anything."""
    issue, base = run.inputs.issue, run.inputs.base
    said = await run.ask("design", DesignDraft, on=run.at(base), issue=issue, base=base, blocker=blocker, former=former)
    found = said.value.design
    if found is None:
        await status(run, said, at.previous, Note("design-draft", said.value.verdict, "stop"))
        return said
    comment = await post(run, "draft", at, texts.draft(found, at))
    # Its round begins with the review.
    note = Note("design-draft", said.value.verdict, "review", more=texts.shown(comment, run=run.id))
    await status(run, said, at.previous, note)
    return said


async def review(run: Run, at: Round, proposal: Proposal) -> DesignReview:
    """From the draft's branch: does the design hold against the code? Its comment is posted unless it is there."""
    said = await run.ask(
        "review_design",
        DesignReview,
        on=proposal.branch,
        issue=run.inputs.issue,
        base=run.inputs.base,
        design=texts.block(proposal.design),
        round=at.number,
        last=at.last,
    )
    comment = await post(run, "review", at, texts.review(said.value, at))
    approved = said.value.verdict == "DESIGN_APPROVED"
    after = "final design" if approved else "ship the consensus" if at.number == at.last else "revision"
    more = texts.reviewed(comment, said.value, run=run.id)
    await status(run, said, at, Note("design-review", said.value.verdict, after, more=more))
    return said.value


async def revise(run: Run, at: Round, proposal: Proposal, *, feedback: Sequence[str]) -> Proposal:
    """From the baseline again: every point of the review is checked, and taken up or refuted."""
    said = await run.ask(
        "revise_design",
        DesignRevision,
        on=run.at(run.inputs.base),
        issue=run.inputs.issue,
        base=run.inputs.base,
        design=texts.block(proposal.design),
        feedback=texts.points(feedback, str),
        pressure=at.pressure,
        round=at.number,
        last=at.last,
    )
    comment = await post(run, "draft", at, texts.draft(said.value.design, at))
    note = Note("design-revision", "revision completed", "review", more=texts.shown(comment, run=run.id))
    await status(run, said, at, note)
    return Proposal(said.value.design, said.branch)


async def finish(
    run: Run, at: Round, proposal: Proposal, *, approved: DesignReview | None = None, concerns: Sequence[str] = ()
) -> Designed:
    """The design that is handed on, in one comment that a later run writes anew."""
    word = "APPROVED" if approved else "CONSENSUS"
    body, comment = texts.final(proposal.design, status=word, rounds=at.number, concerns=concerns)
    there = await keep(run, "final-design", comment, marker=texts.FINAL)
    return await settle(
        run,
        Designed(
            status="APPROVED" if approved else "CONSENSUS",
            comment_url=there.url if there else "",
            notes=approved.approval_notes if approved else texts.points(concerns, str),
            rounds=at.number,
            body=body,
        ),
    )


async def settle(run: Run, made: Designed) -> Designed:
    """Put it on the record for whoever watches."""
    told = DesignSettled(**made.model_dump())
    await run.tell(told, key=f"design:{digest(made.model_dump())}")
    return made


async def post(run: Run, kind: str, at: Round, body: str) -> Comment | None:
    """A draft or a review where everybody sees it, once for everybody; an issue from a file has no such place."""
    if run.inputs.issue.number is None:
        return None
    name, marker = f"design-{kind}", at.marker(kind)
    return await run.comment(run.inputs.issue.key, name=name, body=body, marker=marker)


async def keep(run: Run, name: str, body: str, *, marker: str) -> Comment | None:
    """One comment per marker that tells what is so now, also after an earlier run."""
    if run.inputs.issue.number is None:
        return None
    return await run.stick(run.inputs.issue.key, name=name, body=body, marker=marker)


async def status(run: Run, said: Answer[Any], at: Round, note: Note) -> None:
    """After every step one comment says where the design is."""
    if run.policy.status_comments:
        body = texts.status(note, at, branch=said.branch.id, agent=said.agent)
        await keep(run, f"status-{note.step}", body, marker=at.marker(f"status:step-{note.step}"))
