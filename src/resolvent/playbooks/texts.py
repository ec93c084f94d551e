"""What resolve writes on the forge. Markers and headings are a contract; the prose is ours."""

from collections.abc import Iterable, Sequence

from resolvent.domain.change import Change, Check
from resolvent.domain.decision import Decision
from resolvent.domain.finding import Finding
from resolvent.domain.gate import Gate, Judged
from resolvent.domain.integrity import Hit
from resolvent.domain.neutral import code, fenced, neutral, plain
from resolvent.domain.patch import Hunk
from resolvent.domain.record import Frozen
from resolvent.domain.subject import Issue, PullRequest, RequiredCheck
from resolvent.domain.verdicts import Claim
from resolvent.playbooks.work import Note, Proof, Work

HOME = "https://github.com/resolvent/resolvent"
QUOTED_LINES = 40
# Forges take 256 characters of a title, and about 65,000 of a text, where our own marker comes on top.
LONGEST_TITLE, LONGEST = 256, 64_000

# What a push makes other machines execute, or changes how git itself reads a checkout.
_RUNS_ELSEWHERE = (
    ".github/workflows/",
    ".github/actions/",
    ".gitlab-ci.yml",
    ".circleci/",
    ".buildkite/",
    "azure-pipelines.yml",
    "jenkinsfile",
    ".travis.yml",
    ".drone.yml",
    ".woodpecker",
    ".cirrus.",
    ".gitlab/",
    ".gitea/workflows/",
    ".forgejo/workflows/",
    "bitbucket-pipelines.yml",
    "appveyor.yml",
    ".appveyor.yml",
    "cloudbuild.y",
    ".husky/",
    ".githooks/",
    "hooks/",
    ".pre-commit-config.yaml",
    ".ci/",
    "lefthook.y",
    ".lefthook",
)
# In any directory; and what a person's own tools run as soon as they stand in it, or open it.
_ANYWHERE = (".gitmodules", ".gitattributes", "jenkinsfile", ".envrc")
_OPENED = (".vscode", ".devcontainer")


def runs_elsewhere(path: str) -> bool:
    """A change to this path is not pushed before a person decides."""
    low = path.lower()
    *places, name = low.split("/")
    return low.startswith(_RUNS_ELSEWHERE) or name in _ANYWHERE or any(one in _OPENED for one in places)


def configured_checks(inputs: Frozen) -> tuple[Check, ...]:
    """Build, test and smoke as the repository configured them."""
    return tuple(
        Check(name=kind, kind=kind, command=command, timeout_s=inputs.check_limits.wall_s)
        for kind, command in inputs.checks.items()
    )


def title(issue: Issue) -> str:
    """The title of the pull request, and the subject of its first commit."""
    behind = f" ({issue.reference})"
    return f"{_cut(plain(issue.title), LONGEST_TITLE - len(behind))}{behind}"


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: max(0, most - 1)]}…"


def fitting(body: str) -> str:
    """A body that a forge takes."""
    if len(body) <= LONGEST:
        return body
    # Between lines: half of a code span would let out what it holds.
    return body[:LONGEST].rpartition("\n")[0] + "\n\n(cut here: it is longer than a comment may be)"


def pull_body(issue: Issue, run: str) -> str:
    """What the pull request is for; the link that closes the issue is ours to write."""
    link = f"Fixes #{issue.number}" if issue.number is not None else f"From {issue.slug}.md"
    return f"{link}\n\nMade and judged by Resolvent run `{run}`. Every claim below was executed or is marked as argued."


def second(pull: PullRequest) -> str:
    """What a pull request is told that was opened besides the one of its issue."""
    return f"#{pull.number} is the pull request of this issue; this one was opened beside it and is closed."


def fix_subject(pull: PullRequest, blocking: Sequence[Finding]) -> str:
    """The subject of a later commit."""
    what = "; ".join(finding.claim.title for finding in blocking) or "open the gate"
    return f"Fix #{pull.number}: {plain(one_line(what))}"[:100]


def improve_subject(work: Work) -> str:
    """The subject of the commit that improves an existing pull request."""
    what = work.design.root_cause if work.design else work.pull.title
    return f"Improve #{work.pull.number}: {plain(one_line(what))}"[:100]


def status(note: Note, branch: str, agent: str) -> str:
    """Where the run is, after one step."""
    return (
        f"### {note.step}\n\n- Branch ID: `{branch}`\n- Agent: {agent}\n- Outcome: {note.outcome}\n- Next: {note.after}"
    )


def one_line(text: str) -> str:
    """The text on one line that a table or a list can hold."""
    return " ".join(text.split())[:300]


def hit_key(hit: Hit) -> str:
    """The same weakening of the same file, wherever its lines have moved to."""
    return f"{hit.rule}:{hit.path}:{hit.text}"


def meant(dismissed: Iterable[str], paths: Iterable[str]) -> set[str]:
    """The files of which a person said that their weakening is meant to be."""
    said = [key.partition(":")[2] for key in dismissed]
    return {path for path in paths if any(one.startswith(f"{path}:") for one in said)}


def hit_claim(hit: Hit) -> Claim:
    """What a rule found, as a reviewer would claim it."""
    return Claim(
        severity="P1",
        description=f"{hit.rule} in {hit.path}: {one_line(hit.text)}",
        code_evidence=f"{hit.path}:{hit.line}",
        reachability="it is in the change itself",
        blast_radius="the checks of this repository say less than before, of this change and of all later ones",
        no_reproducer="found by reading the change",
    )


def dismissal(hits: Sequence[Hit], decision: Decision) -> str:
    """What a person found to be meant, and why."""
    lines = "\n".join(
        f"- `{hit.rule}` {neutral(one_line(hit.text))} ({code(f'{hit.path}:{hit.line}')})" for hit in hits
    )
    who = code(decision.by) if decision.by else "A person"
    head = f"### Test integrity: dismissed by a person\n\n{lines}\n\n{who} says why:"
    return fitting(f"{head}\n{fenced(decision.reason)}")


def introduced(commit: Change, proof: Proof) -> str:
    """Which commit brought the problem, and how anybody can see it."""
    command = fenced(proof.reproducer.command) if proof.reproducer else ""
    return (
        f"### Introduced by `{commit.commit}`\n\nThe reproducer fails on that commit and not on the one before it:\n"
        f"{command}"
    )


def places(hunks: Sequence[Hunk]) -> str:
    """Where parts of a change are, for people."""
    return ", ".join(f"{hunk.path}:{hunk.new_start or 1}" for hunk in hunks[:20]) + (" …" if len(hunks) > 20 else "")


def with_spare(gate: Gate, spare: Sequence[Hunk]) -> Gate:
    """The gate, with what could be left out said beside it."""
    if not spare:
        return gate
    return gate.model_copy(update={"notes": (*gate.notes, f"nothing needs {places(spare)}: it could be left out")})


def verification(findings: Sequence[Finding], change: Change) -> str:
    """The triage of one head in three sections."""
    fixing, deferring, invalid = (
        [finding for finding in findings if finding.scope == scope]
        for scope in ("FIX_IN_THIS_PR", "DEFER_CREATE_ISSUE", "INVALID_OR_ALREADY_FIXED")
    )
    lines = [
        "## Review Verification Summary",
        f"Head `{change.commit}`",
        "",
        "### ✅ FIX_IN_THIS_PR (blocking merge)",
        *(_item(finding, f"difficulty {finding.difficulty or '?'}, risk {finding.risk or '?'}") for finding in fixing),
        *([] if fixing else ["- none"]),
        "",
        "### 📋 DEFER_CREATE_ISSUE (tracked separately)",
        *(_item(finding, finding.issue) for finding in deferring),
        *([] if deferring else ["- none"]),
        "",
        "### ❌ INVALID_OR_ALREADY_FIXED",
        *(_item(finding, "") for finding in invalid),
        *([] if invalid else ["- none"]),
    ]
    return fitting("\n".join(lines))


def _item(finding: Finding, more: str) -> str:
    ran = f"head {finding.on_head}, base {finding.on_base}" if finding.on_head else "nothing executed"
    basis = f"rule {finding.rule}" if finding.rule else f"{finding.basis} ({ran})"
    made = f"made by fix round {finding.created_in_round}" if finding.created_in_round else ""
    back = f"{finding.repeats} is back" if finding.repeats else ""
    title = neutral(one_line(finding.claim.title))
    parts = [f"**{finding.id}** {finding.claim.severity} {title}", basis, finding.origin, made, back, more]
    # Indented, so that no line of it can pose as a section.
    why = neutral(finding.rationale).strip().replace("\n", "\n  ")
    return f"- {' · '.join(part for part in parts if part)}\n  {why}"


def plain_title(finding: Finding) -> str:
    """A title for an issue: nobody is called by it."""
    return plain(one_line(finding.claim.title))


def deferred(finding: Finding, pull: PullRequest) -> str:
    """An issue for a finding that is not this pull request's to fix."""
    claim = finding.claim
    steps = fenced(claim.reproducer.command) if claim.reproducer else neutral(claim.no_reproducer or "argued only")
    return fitting(
        f"Found while reviewing {pull.url} (#{pull.number}).\n\n## Evidence\n{neutral(claim.code_evidence)}\n\n"
        f"{neutral(claim.description)}\n\n## How to reproduce\n{steps}\nOn the base: "
        f"{finding.on_base or 'not executed'}; on the pull request: {finding.on_head or 'not executed'}.\n\n"
        f"## Impact\n{neutral(claim.blast_radius)}\n\nReachable: {neutral(claim.reachability)}\n\n"
        f"Why not there: {neutral(finding.rationale)}"
    )


def flaky(check: RequiredCheck, pull: PullRequest, *, on_base: bool) -> str:
    """An issue for a required check that says nothing about the change."""
    why = "it is red on the base branch too" if on_base else "it was red, then green on a rerun of the same commit"
    said = f"{code(check.name)} on {pull.url} (#{pull.number}) at `{check.commit}`: {why}."
    return fitting(f"{said}\n\n{fenced(_lines(check.log))}")


def completion(inputs: Frozen, work: Work, gate: Gate) -> str:
    """The last comment of a run on its pull request."""
    link = inputs.issue.url or inputs.issue.reference
    rows = "\n".join(f"- {neutral(one_line(note))}" for note in gate.notes)
    return (
        "## ✅ Pantheon Issue Resolution Complete\n\n"
        f"Reviewed, triaged and fixed until nothing in scope was left, at `{work.change.commit}`.\n\n"
        "**Final Status:**\n"
        "- ✅ The latest review left no P0/P1 that blocks this pull request\n"
        "- ✅ Every finding was fixed, deferred to an issue, or shown to be none\n"
        f"- ✅ The gate is open: {'argued' if gate.argued else 'reproducers passed on this commit'}\n{rows}\n\n"
        "**Workflow Summary:**\n"
        f"- Issue analyzed: {link}\n- PR created/updated: #{work.pull.number}\n"
        f"- Review cycles completed: {work.round}\n\n---\n🤖 Automated by [Resolvent]({HOME})"
    )


def logs(case: Judged) -> dict[str, str]:
    """What the failing checks printed, for the next fix."""
    ours = {item.check.name: _lines(item.tail) for item in case.evidence if not item.passed}
    return ours | {f"CI check {item.name}": _lines(item.log) for item in case.required if item.state == "failed"}


def _lines(text: str) -> str:
    return "\n".join(text.splitlines()[-QUOTED_LINES:])
