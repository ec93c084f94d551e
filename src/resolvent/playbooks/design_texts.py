"""What design writes on the forge and shows to agents. Markers and headings are a contract; the prose is ours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from resolvent.domain.design import DesignReview, SolutionDesign
from resolvent.domain.neutral import neutral
from resolvent.domain.subject import Comment
from resolvent.playbooks.texts import HOME, fitting

FINAL = "<!-- pantheon-final-design -->"
ROUNDS = 3


@dataclass(frozen=True)
class Round:
    """One draft and one review; a design that is made anew goes on counting where the first one ended."""

    number: int
    before: int = 0

    @property
    def last(self) -> int:
        return self.before + ROUNDS

    @property
    def next(self) -> "Round":
        return Round(self.number + 1, before=self.before)

    @property
    def previous(self) -> "Round":
        return Round(self.number - 1, before=self.before)

    @property
    def pressure(self) -> str:
        """What the drafter is told of the time that is left; nothing in the first round."""
        nth = self.number - self.before
        if nth >= ROUNDS:
            return "Final round. Ship the best consensus you can reach, and say openly which concerns remain."
        if nth > 1:
            return (
                "Think harder. The review found real gaps: check every statement against the code before you make it."
            )
        return ""

    def marker(self, kind: str) -> str:
        return f"<!-- pantheon-design-{kind}:round-{self.number} -->"


@dataclass(frozen=True)
class Note:
    """What a status comment says of one step."""

    step: str
    outcome: str
    after: str
    # What else there is to tell, each with its name.
    more: tuple[tuple[str, str], ...] = ()


def status(note: Note, at: Round, *, branch: str, agent: str) -> str:
    """Where the design is, after one step."""
    lines = [
        at.marker(f"status:step-{note.step}"),
        f"**Pantheon Design Workflow — {note.step}** (Round {at.number}/{at.last})",
        f"- **Branch ID**: `{branch}`",
        f"- **Agent**: {agent}",
        f"- **Outcome**: {note.outcome}",
        *(f"- **{name}**: {said}" for name, said in note.more),
        f"- **Next**: {note.after}",
    ]
    return "\n".join(lines)


def draft(design: SolutionDesign, at: Round) -> str:
    """One draft, as everybody may read it; from the second round on with what changed."""
    body = f"{at.marker('draft')}\n## Solution Design (Round {at.number})\n\n{sections(design, neutral)}"
    if at.number > at.before + 1:
        body += f"\n\n### Changes from Round {at.number - 1}\n{neutral(design.revision_notes)}"
    return fitting(body)


def review(said: DesignReview, at: Round) -> str:
    """One review, as everybody may read it."""
    why = neutral(said.approval_notes) if said.approval_notes else points(said.feedback, neutral)
    head = f"{at.marker('review')}\n## Design Review (Round {at.number})\n\n**Verdict**: {said.verdict}"
    return fitting(f"{head}\n\n{why}")


def shown(comment: Comment | None, *, run: str) -> tuple[tuple[str, str], ...]:
    """Where the draft can be read, for its status; and that it is an older one, where one stands in its place."""
    if comment is None:
        return ()
    older = "" if _ours(comment, run) else f", by {comment.author} and from before this run"
    return (("Draft comment", f"{comment.url}{older}"),)


def reviewed(comment: Comment | None, said: DesignReview, *, run: str) -> tuple[tuple[str, str], ...]:
    """Whether the reviewer's own comment was there, and who posted the one that is, for its status."""
    if comment is None:
        return ()
    if _ours(comment, run):
        named = " (the one it named is not there)" if said.comment_url else ""
        word = f"no{named}; posted for the reviewer: {comment.url}"
    else:
        earlier = " in an earlier run" if "<!-- resolvent:" in comment.body else ""
        word = f"yes, by {comment.author}{earlier}: {comment.url}"
    return (("Review comment posted", word),)


def _ours(comment: Comment, run: str) -> bool:
    return f"<!-- resolvent:{run}:" in comment.body


def final(design: SolutionDesign, *, status: str, rounds: int, concerns: Sequence[str]) -> tuple[str, str]:
    """The design as it is handed on, and the comment that shows it to people."""

    def told(write: Callable[[str], str]) -> str:
        head = f"## Final Solution Design\n\n**Status**: {status}\n**Rounds**: {rounds}\n\n{sections(design, write)}"
        return f"{head}\n\n### Remaining Concerns\n{points(concerns, write)}" if concerns else head

    footer = f"\n\n---\n🤖 Automated by [Resolvent]({HOME})"
    return told(str), f"{FINAL}\n{fitting(told(neutral))}{footer}"


def sections(design: SolutionDesign, write: Callable[[str], str]) -> str:
    """Every part of a design under its heading."""
    parts = {
        "Root Cause": write(design.root_cause),
        "Severity": design.severity,
        "Approach": write(design.approach),
        "Files to Change": points(design.files_to_change, write),
        "Edge Cases": points(design.edge_cases, write),
        "Test Strategy": write(design.test_strategy),
        "Risks": points(design.risks, write),
        "Alternatives Rejected": points(design.alternatives_rejected, write),
    }
    return "\n\n".join(f"### {heading}\n{text}" for heading, text in parts.items())


def block(design: SolutionDesign) -> str:
    """A design as the drafter is asked to print it, for the prompts of the next steps."""
    lines = []
    for key, value in design:
        if isinstance(value, tuple):
            lines.append(f"{key}:\n{points(value, str)}" if value else f"{key}:")
        elif value:
            lines.append(f"{key}: {value}")
    return "\n".join(lines)


def points(said: Sequence[str], write: Callable[[str], str]) -> str:
    """A list, each further line of a point indented so that it stays in it."""
    return "\n".join("- " + write(one).strip().replace("\n", "\n  ") for one in said) or "- none"
