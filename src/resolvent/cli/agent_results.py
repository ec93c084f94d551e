"""What came of an agent that was tried: its answer, what it left in its branch, what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resolvent.branching import Branching
from resolvent.cli.terminal import Cell, Terminal, clean, one_line
from resolvent.cli.transcripts import usage_line
from resolvent.cli.words import seconds
from resolvent.domain.job import Branch, JobExit, Reply
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import Moment
from resolvent.errors import ExportRefused

MOST_PATHS = 50


@dataclass(frozen=True)
class Changes:
    """What it left in its branch; `refused` says why that could be no commit."""

    files: tuple[tuple[str, int, int], ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Ended:
    """A trial that went well as a process."""

    choice: AgentChoice
    branch: Branch
    exit: JobExit
    reply: Reply
    changes: Changes

    def lines(self, terminal: Terminal, *, shown: str, noticed: Sequence[str] = ()) -> list[str]:
        """For people: `shown` are the last words that they have read already, `noticed` what was noticed on the way."""
        model = f":{self.choice.model}" if self.choice.model else ""
        spent = usage_line(self.reply.usage) or "it does not say what it spent"
        said = f"── {self.choice.name}{model} answered after {seconds(self.exit.seconds)} · {spent} ──"
        lines = ["", terminal.paint(one_line(said), "bold")]
        answer = clean(self.reply.answer or self.reply.text).strip()
        # An agent that prints plain words has shown all of them by now.
        if answer and not (shown.strip() and answer.endswith(clean(shown).strip())):
            lines += answer.split("\n")
        new = [notice for notice in self.reply.notices if notice not in noticed]
        lines += [terminal.paint(f"● {one_line(notice)}", "yellow") for notice in new]
        return [*lines, *_change_lines(terminal, self.changes)]

    def document(self, moments: Sequence[Moment]) -> dict[str, Any]:
        """For programs."""
        return {
            "agent": self.choice.name,
            "model": self.choice.model,
            "base": self.branch.commit,
            "text": self.reply.text,
            "answer": self.reply.answer,
            "changes": [{"path": path, "added": more, "removed": less} for path, more, less in self.changes.files],
            "refused": self.changes.refused,
            "usage": self.reply.usage.model_dump(mode="json"),
            "seconds": self.exit.seconds,
            "notices": list(self.reply.notices),
            "moments": [moment.model_dump(mode="json") for moment in moments],
        }


def _change_lines(terminal: Terminal, changes: Changes) -> list[str]:
    if changes.refused:
        return [terminal.paint(f"what it left can be no commit: {one_line(changes.refused)}", "yellow")]
    if not changes.files:
        return ["it changed nothing"]
    rows: list[list[Cell]] = [
        [path, (f"+{more}", "green"), (f"-{less}", "red")] for path, more, less in changes.files[:MOST_PATHS]
    ]
    left_out = len(changes.files) - len(rows)
    return [*terminal.table(rows, align="=>>"), *([f"  … and {left_out} more files"] if left_out else [])]


async def changes_in(branching: Branching, branch: Branch) -> Changes:
    """What the branch holds now against the commit that it was made from."""
    repository, workspace = await branching.home.git_repository(), await branching.home.workspace()
    try:
        # At a fixed time: looking twice makes no second commit.
        change = await workspace.export(branch, message="what the branch holds", at=0)
    except ExportRefused as error:
        return Changes(refused=error.message)
    if change is None:
        return Changes()
    before = await repository.change(branch.commit)
    paths = await repository.changed_paths(before, change)
    counts = counted(await repository.diff(before, change))
    # A patch that was cut has fewer files than there are paths.
    counts += [(0, 0)] * (len(paths) - len(counts))
    return Changes(tuple((path, *count) for path, count in zip(paths, counts, strict=False)))


def counted(patch: str) -> list[tuple[int, int]]:
    """The lines that each file of a patch gains and loses, in its order."""
    found: list[list[int]] = []
    inside = False
    for line in patch.split("\n"):
        # A line of a file never begins with this: it has a sign before it.
        if line.startswith("diff --git "):
            found.append([0, 0])
            inside = False
        elif line.startswith("@@ "):
            inside = True
        elif inside and line[:1] in ("+", "-"):
            found[-1][line[0] == "-"] += 1
    return [(gained, lost) for gained, lost in found]
