"""Node ids: one opaque name for everything the rehearsal forge holds, the same in REST and GraphQL."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Literal

Kind = Literal[
    "Bot",
    "CheckRun",
    "CheckSuite",
    "Commit",
    "Issue",
    "IssueComment",
    "Label",
    "Organization",
    "PullRequest",
    "PullRequestCommit",
    "PullRequestReview",
    "PullRequestReviewComment",
    "Reaction",
    "Ref",
    "Repository",
    "ReviewRequest",
    "StatusContext",
    "Tree",
    "User",
    "Workflow",
    "WorkflowRun",
]

PREFIXES: dict[Kind, str] = {
    "Bot": "BOT",
    "CheckRun": "CR",
    "CheckSuite": "CS",
    "Commit": "C",
    "Issue": "I",
    "IssueComment": "IC",
    "Label": "LA",
    "Organization": "O",
    "PullRequest": "PR",
    "PullRequestCommit": "PURC",
    "PullRequestReview": "PRR",
    "PullRequestReviewComment": "PRRC",
    "Reaction": "REA",
    "Ref": "REF",
    "Repository": "R",
    "ReviewRequest": "RR",
    "StatusContext": "SC",
    "Tree": "T",
    "User": "U",
    "Workflow": "W",
    "WorkflowRun": "WFR",
}
_KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}


def node_id(kind: Kind, key: str | int) -> str:
    """The name of the thing of that kind with that key.

    The key of an account is its login (whichever kind it is: `User` but for a `Bot` or `Organization`), of the
    repository `OWNER/NAME`, of an issue or pull request its number, of a commit or tree its hash, of a ref its whole
    name (`refs/heads/…`), of a workflow its name, of a status `COMMIT:NAME`, of a check suite its run, of
    what belongs to a pull request `NUMBER:WHAT`; of all others the id.
    """
    packed = urlsafe_b64encode(str(key).encode("utf-8", "surrogateescape")).decode("ascii").rstrip("=")
    return f"{PREFIXES[kind]}_{packed}"


def node_named(node: str) -> tuple[Kind, str] | None:
    """What a node id names; None when it is none of ours."""
    prefix, _, packed = node.partition("_")
    kind = _KINDS.get(prefix)
    if kind is None or not packed or not node.isascii():
        return None
    try:
        key = urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode("utf-8", "surrogateescape")
    except ValueError:
        return None
    # Many texts decode to the same bytes: only the one we would write is a name.
    return (kind, key) if node_id(kind, key) == node else None
