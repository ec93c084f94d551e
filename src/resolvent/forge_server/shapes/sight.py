"""What the forge holds, seen from the address it is asked at: the words that every shape is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from zlib import crc32

from resolvent.forge_server.holdings import Account, Holdings, Item

PUBLIC = "https://github.com"
# Each kind of thing counts its ids apart from its numbers, so that a client which mixes them up is found out.
ISSUE_IDS, PULL_IDS = 10_000_000, 20_000_000
RANKS = ("none", "read", "triage", "write", "maintain", "admin")

Json = dict[str, Any]


def instant(seconds: float) -> str:
    """A time as GitHub writes it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def maybe_instant(seconds: float | None) -> str | None:
    """A time as GitHub writes it, where there is one."""
    return None if seconds is None else instant(seconds)


def quoted(name: str) -> str:
    """A name or path as a part of a URL; slashes stay."""
    return quote(name, errors="replace")


@dataclass(frozen=True)
class Sight:
    """Everything at one moment, with the address of the pages: `https://localhost:8443` or `https://github.com`."""

    holdings: Holdings
    base: str
    viewer: Account
    # The API of 2026-03-10 took some fields away; who names no version is answered as in 2022.
    newest: bool = False

    @property
    def api(self) -> str:
        """Where REST is."""
        return "https://api.github.com" if self.base == PUBLIC else f"{self.base}/api/v3"

    @property
    def full_name(self) -> str:
        return f"{self.holdings.owner}/{self.holdings.name}"

    @property
    def page(self) -> str:
        """Where people look at the repository."""
        return f"{self.base}/{self.full_name}"

    @property
    def repo(self) -> str:
        """Where REST has the repository."""
        return f"{self.api}/repos/{self.full_name}"

    @property
    def repo_id(self) -> int:
        # As small as GraphQL has its numbers.
        return crc32(self.full_name.encode()) >> 1

    def older(self, **fields: Any) -> Json:
        """Fields that only who speaks the older API is told."""
        return {} if self.newest else fields

    def account(self, login: str) -> Account:
        """Who that is; an author that has no account has a face nevertheless."""
        known = self.holdings.accounts.get(login)
        return known or Account(id=crc32(login.encode()) >> 1, login=login, permission="none")

    def association(self, login: str) -> str:
        """What somebody is to the repository."""
        if login == self.holdings.owner:
            return "OWNER"
        known = self.holdings.accounts.get(login)
        return "COLLABORATOR" if known and RANKS.index(known.permission) >= RANKS.index("triage") else "NONE"

    def item_page(self, item: Item) -> str:
        return f"{self.page}/{'pull' if item.kind == 'pull' else 'issues'}/{item.number}"

    def branch_commit(self, branch: str) -> str | None:
        return self.holdings.refs.get(f"refs/heads/{branch}")

    def branches_at(self, commit: str) -> list[str]:
        """The branches that end in this commit."""
        heads = (ref for ref, at in self.holdings.refs.items() if at == commit and ref.startswith("refs/heads/"))
        return sorted(ref.removeprefix("refs/heads/") for ref in heads)


def item_id(item: Item) -> int:
    """The id of an issue, or of a pull request as an issue."""
    return ISSUE_IDS + item.number


def subset(shape: Mapping[str, Any], *names: str) -> Json:
    """Only these fields of a shape."""
    return {name: shape[name] for name in names}
