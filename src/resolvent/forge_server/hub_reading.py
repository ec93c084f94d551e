"""Everything on the hub at one moment: the tables and git, put together into Holdings."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from resolvent.adapters.forges.local_git import merged_onto_ref
from resolvent.adapters.forges.local_pulls import pull_of
from resolvent.adapters.journal.store import Connection
from resolvent.domain.subject import PullRequest
from resolvent.forge_server.holdings import (
    Account,
    CheckRun,
    Holdings,
    Item,
    Label,
    Labelled,
    LineRemark,
    Opined,
    Reacted,
    Remark,
)

Row = dict[str, Any]
_TABLES = (
    "items",
    "labels",
    "known_labels",
    "comments",
    "reactions",
    "reviews",
    "line_remarks",
    "assignees",
    "reviewers",
    "check_runs",
    "required",
    "accounts",
    "facts",
)
_ORDER = {"items": "number", "required": "name", "facts": "name"}
# Rows of pairs have no number of their own; they are sorted where they are put together.
_UNORDERED = ("labels", "assignees", "reviewers")


@dataclass(frozen=True)
class Place:
    """What the tables do not know: whose repository it is, and where git is."""

    owner: str
    name: str
    default_branch: str
    refs: Mapping[str, str]


def all_rows(connection: Connection) -> dict[str, list[Row]]:
    """Every table of the forge, whole."""
    found = {}
    for table in _TABLES:
        order = "" if table in _UNORDERED else f"ORDER BY {_ORDER.get(table, 'id')}"
        found[table] = connection.read(f"SELECT * FROM forge_{table} {order}")
    found["version"] = connection.read("SELECT number FROM forge_version")
    return found


def version_of(number: int, default_branch: str, refs: Mapping[str, str]) -> int:
    """Another number whenever a row, a ref or the default branch is another."""
    told = f"{number} {default_branch} {sorted(refs.items())}"
    return int.from_bytes(sha256(told.encode("utf-8", "surrogateescape")).digest()[:6])


def unknown_logins(rows: Mapping[str, list[Row]]) -> list[str]:
    """Who wrote something and has no account."""
    written = [row["author"] for table in ("items", "comments", "reviews") for row in rows[table]]
    written += [row["by_login"] for row in rows["labels"]]
    known = {row["login"] for row in rows["accounts"]}
    return [
        login
        for login in dict.fromkeys((*written, *(row["merged_by"] for row in rows["items"])))
        if login and login not in known
    ]


def holdings_of(rows: Mapping[str, list[Row]], place: Place) -> Holdings:
    """The rows and git as plain values."""
    facts = {row["name"]: row["fact"] for row in rows["facts"]}
    checks: dict[str, list[CheckRun]] = defaultdict(list)
    for row in rows["check_runs"]:
        checks[row["on_commit"]].append(check_of(row))
    return Holdings(
        version=version_of(rows["version"][0]["number"], place.default_branch, place.refs),
        owner=place.owner,
        name=place.name,
        default_branch=place.default_branch,
        created_at=float(facts.get("created_at", 0.0)),
        archived=facts.get("archived") == "yes",
        accounts={row["login"]: Account(**row) for row in rows["accounts"]},
        labels={row["name"]: Label(**row) for row in rows["known_labels"]},
        items=_items(rows, place),
        refs={
            name: commit
            for name, commit in place.refs.items()
            if name.startswith(("refs/heads/", "refs/resolvent/claims/"))
        },
        required=tuple(sorted(row["name"] for row in rows["required"])),
        checks={commit: tuple(runs) for commit, runs in checks.items()},
    )


def check_of(row: Row) -> CheckRun:
    """An attempt of a check."""
    return CheckRun(commit=row["on_commit"], **{name: row[name] for name in row if name != "on_commit"})


def _items(rows: Mapping[str, list[Row]], place: Place) -> dict[int, Item]:
    labels, assignees = _names(rows["labels"], "name"), _names(rows["assignees"], "login")
    reviewers, reviews = _names(rows["reviewers"], "login"), _reviews(rows)
    reactions: dict[tuple[int, int], list[Reacted]] = defaultdict(list)
    for row in rows["reactions"]:
        one = Reacted(id=row["id"], login=row["login"], content=row["content"], created_at=row["created_at"])
        reactions[row["number"], row["comment"]].append(one)
    labellings: dict[int, list[Labelled]] = defaultdict(list)
    for row in sorted(rows["labels"], key=lambda row: str(row["name"])):
        labellings[row["number"]].append(Labelled(row["name"], row["by_login"], row["created_at"]))
    remarks: dict[int, list[Remark]] = defaultdict(list)
    for row in rows["comments"]:
        remarks[row["number"]].append(Remark(**row, reactions=tuple(reactions[row["number"], row["id"]])))
    items = {}
    for row in rows["items"]:
        number = row["number"]
        said = {
            "labels": labels.get(number, ()),
            "labellings": tuple(labellings[number]),
            "assignees": assignees.get(number, ()),
            "remarks": tuple(remarks.get(number, ())),
            "reactions": tuple(reactions.get((number, 0), ())),
            "reviewers": reviewers.get(number, ()),
            "reviews": tuple(reviews.get(number, ())),
        }
        items[number] = _item(row, said, place)
    return items


def _item(row: Row, said: Mapping[str, Any], place: Place) -> Item:
    plain = {name: row[name] for name in ("number", "kind", "title", "body", "author", "created_at", "updated_at")}
    plain |= {"reason": row["reason"], "locked": bool(row["locked"])}
    if row["kind"] == "issue":
        return Item(**plain, **said, state=row["state"], closed_at=row["closed_at"])
    pull = pull_of(row, place.refs, said["labels"])
    closed_at = row["closed_at"]
    if closed_at is None and pull.state != "open":
        # Git closed it, by a branch that went away: nobody wrote down when.
        closed_at = row["updated_at"]
    return Item(
        **plain,
        **said,
        state=pull.state,
        closed_at=closed_at,
        head=pull.head,
        head_commit=pull.head_commit,
        base=pull.base,
        base_commit=_base_commit(pull, place.refs),
        draft=pull.draft,
        merged_at=row["merged_at"],
        merged_by=row["merged_by"],
        merge_commit=pull.merge_commit,
    )


def _base_commit(pull: PullRequest, refs: Mapping[str, str]) -> str:
    live = refs.get(f"refs/heads/{pull.base}", "")
    return refs.get(merged_onto_ref(pull.number), live) if pull.state == "merged" else live


def _reviews(rows: Mapping[str, list[Row]]) -> dict[int, list[Opined]]:
    remarks: dict[int, list[LineRemark]] = defaultdict(list)
    for row in rows["line_remarks"]:
        plain = {name: row[name] for name in row if name != "on_commit"}
        remarks[row["review"]].append(LineRemark(commit=row["on_commit"], **plain))
    found: dict[int, list[Opined]] = defaultdict(list)
    for row in rows["reviews"]:
        one = Opined(
            id=row["id"],
            number=row["number"],
            author=row["author"],
            opinion=row["verdict"],
            body=row["body"],
            commit=row["on_commit"],
            created_at=row["created_at"],
            remarks=tuple(remarks[row["id"]]),
        )
        found[row["number"]].append(one)
    return found


def _names(rows: Iterable[Row], column: str) -> dict[int, tuple[str, ...]]:
    found: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        found[row["number"]].append(row[column])
    return {number: tuple(sorted(names)) for number, names in found.items()}
