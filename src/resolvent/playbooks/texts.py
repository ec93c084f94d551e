"""What resolve writes on the forge. Markers and headings are a contract; the prose is ours."""

from collections.abc import Sequence

from resolvent.domain.change import Change, Check
from resolvent.domain.finding import Finding
from resolvent.domain.gate import Gate, Judged
from resolvent.domain.record import Frozen
from resolvent.domain.subject import Issue, PullRequest, RequiredCheck
from resolvent.playbooks.work import Note, Work

HOME = "https://github.com/resolvent/resolvent"
QUOTED_LINES = 40

# What a push makes other machines execute, or changes how git itself reads a checkout.
_RUNS_ELSEWHERE = (
    ".github/workflows/",
    ".github/actions/",
    ".gitlab-ci.yml",
    ".circleci/",
    ".buildkite/",
    "azure-pipelines.yml",
    "jenkinsfile",
    ".husky/",
    ".githooks/",
    "hooks/",
    ".pre-commit-config.yaml",
    ".ci/",
    # Run by a person's own tools as soon as they stand in the checkout or open it.
    ".envrc",
    ".vscode/",
    ".devcontainer/",
)


def runs_elsewhere(path: str) -> bool:
    """A change to this path is not pushed before a person decides."""
    low = path.lower()
    return low.startswith(_RUNS_ELSEWHERE) or low.rpartition("/")[2] in (".gitmodules", ".gitattributes")


def configured_checks(inputs: Frozen) -> tuple[Check, ...]:
    """Build, test and smoke as the repository configured them."""
    return tuple(
        Check(name=kind, kind=kind, command=command, timeout_s=inputs.check_limits.wall_s)
        for kind, command in inputs.checks.items()
    )


def title(issue: Issue) -> str:
    """The title of the pull request, and the subject of its first commit."""
    return f"{issue.title} ({issue.reference})"


def pull_body(issue: Issue, run: str) -> str:
    """What the pull request is for; the link that closes the issue is ours to write."""
    link = f"Fixes #{issue.number}" if issue.number is not None else f"From {issue.slug}.md"
    return f"{link}\n\nMade and judged by Resolvent run `{run}`. Every claim below was executed or is marked as argued."


def fix_subject(pull: PullRequest, blocking: Sequence[Finding]) -> str:
    """The subject of a later commit."""
    what = "; ".join(finding.claim.title for finding in blocking) or "open the gate"
    return f"Fix #{pull.number}: {what}"[:100]


def status(note: Note, branch: str, agent: str) -> str:
    """Where the run is, after one step."""
    return (
        f"### {note.step}\n\n- Branch ID: `{branch}`\n- Agent: {agent}\n- Outcome: {note.outcome}\n- Next: {note.after}"
    )


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
    return _without_markers("\n".join(lines))


def _item(finding: Finding, more: str) -> str:
    ran = f"head {finding.on_head}, base {finding.on_base}" if finding.on_head else "nothing executed"
    parts = [f"**{finding.id}** {finding.claim.severity} {finding.claim.title}", f"{finding.basis} ({ran})", more]
    # Indented, so that no line of it can pose as a section.
    why = finding.rationale.strip().replace("\n", "\n  ")
    return f"- {' · '.join(part for part in parts if part)}\n  {why}"


def deferred(finding: Finding, pull: PullRequest) -> str:
    """An issue for a finding that is not this pull request's to fix."""
    claim = finding.claim
    steps = f"```sh\n{claim.reproducer.command}\n```" if claim.reproducer else claim.no_reproducer or "argued only"
    return _without_markers(
        f"Found while reviewing {pull.url} (#{pull.number}).\n\n## Evidence\n{claim.code_evidence}\n\n"
        f"{claim.description}\n\n## How to reproduce\n{steps}\nOn the base: {finding.on_base or 'not executed'}; "
        f"on the pull request: {finding.on_head or 'not executed'}.\n\n## Impact\n{claim.blast_radius}\n\n"
        f"Reachable: {claim.reachability}\n\nWhy not there: {finding.rationale}"
    )


def flaky(check: RequiredCheck, pull: PullRequest, *, on_base: bool) -> str:
    """An issue for a required check that says nothing about the change."""
    why = "it is red on the base branch too" if on_base else "it was red, then green on a rerun of the same commit"
    said = f"`{check.name}` on {pull.url} (#{pull.number}) at `{check.commit}`: {why}."
    return _without_markers(f"{said}\n\n````text\n{_lines(check.log)}\n````")


def completion(inputs: Frozen, work: Work, gate: Gate) -> str:
    """The last comment of a run on its pull request."""
    link = inputs.issue.url or inputs.issue.reference
    rows = "\n".join(f"- {note}" for note in gate.notes)
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


def _without_markers(text: str) -> str:
    """What agents and CI said stands in comments of ours, and markers count there: so it may hold none."""
    return text.replace("<!--", "&lt;!--")


def _lines(text: str) -> str:
    return "\n".join(text.splitlines()[-QUOTED_LINES:])
