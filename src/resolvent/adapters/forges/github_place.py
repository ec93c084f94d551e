"""Where a repository on GitHub is: its addresses, and how people and programs name what it holds. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit

from resolvent.errors import ForgeRefused, NotFound, UsageError

Kind = Literal["issue", "pull"]

_REPO = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_NUMBER = re.compile(r"#?([0-9]{1,10})")
_TARGET = re.compile(r"(issue|pr)-([0-9]{1,10})")
_KINDS: dict[str, Kind] = {"issue": "issue", "pr": "pull", "issues": "issue", "pull": "pull", "pulls": "pull"}
_NOUNS: dict[Kind, tuple[str, str]] = {"issue": ("issue", "issue"), "pull": ("pull request", "pr")}
# What git itself refuses in a name.
_NO_BRANCH = re.compile(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$|^@$|[\ud800-\udfff]")


@dataclass(frozen=True)
class GitHubPlace:
    """A repository on GitHub, who we are there, and what we may take of it."""

    repo: str
    # Another server than github.com: https://HOST/api/v3.
    api: str = ""
    token: str = ""
    # In place of a token: an App, where it is installed, and its private key.
    app: str = ""
    installation: int = 0
    private_key: str = ""
    # A file with the certificates the server is known by, and the proxy that leads there.
    ca: str = ""
    proxy: str = ""
    trusted_logins: tuple[str, ...] = ()
    # API calls of an hour that are left to others.
    reserve: int = 500
    # Where answers are kept to ask again whether they still hold; nowhere: in memory.
    cache: Path | None = None
    # How often CI is asked, and how long a failed read waits before it is tried again.
    poll_s: float = 15.0
    retry_s: float = 0.5

    def __repr__(self) -> str:
        return f"GitHubPlace({self.repo!r}, api={self.api!r})"

    @property
    def where(self) -> "Where":
        """Its addresses; UsageError when they cannot be any."""
        if not _REPO.fullmatch(self.repo) or {".", ".."} & set(self.repo.split("/")):
            raise UsageError(f"forge.repo is owner/name, not {self.repo!r}", hint='set forge.repo = "owner/name"')
        api = self.api.rstrip("/") or "https://api.github.com"
        parts = urlsplit(api)
        if parts.scheme != "https" or not parts.hostname or parts.username is not None:
            raise UsageError(f"forge.api must begin with https://, not {parts.scheme}://", hint="set forge.api")
        host = parts.netloc
        if parts.path not in ("", "/api/v3") or (not parts.path and not host.startswith("api.")):
            raise UsageError(
                f"forge.api is not the API of a GitHub: {api}", hint='set forge.api = "https://HOST/api/v3"'
            )
        return Where(self.repo, api, f"https://{host if parts.path else host.removeprefix('api.')}")


@dataclass(frozen=True)
class Where:
    """The addresses of one repository: `api` is asked by programs, `web` is what people and git see."""

    repo: str
    api: str
    web: str

    @property
    def owner(self) -> str:
        return self.repo.partition("/")[0]

    @property
    def page(self) -> str:
        return f"{self.web}/{self.repo}"

    @property
    def git(self) -> str:
        return f"{self.page}.git"

    def path(self, *parts: str | int) -> str:
        """The address of something of the repository; no part of it can name anything outside."""
        return path("repos", *self.repo.split("/"), *parts)

    def number(self, reference: str, kind: Kind) -> int:
        """The number in `3`, `#3` or a URL; NotFound when it is none of them."""
        if named := _NUMBER.fullmatch(reference.strip()):
            return int(named[1])
        found = self._named(reference.strip())
        if found is None or found[1] != kind or found[2]:
            raise self.unknown(reference, kind)
        return found[0]

    def target(self, text: str) -> tuple[int, Kind]:
        """What `issue-3` or `pr-4` is."""
        named = _TARGET.fullmatch(text)
        if not named:
            raise NotFound(f"{text!r} names no issue or pull request of {self.repo}", hint=self._hint("issue"))
        return int(named[2]), _KINDS[named[1]]

    def comment(self, url: str) -> tuple[int, tuple[int, Kind] | None]:
        """The id in the URL of a comment, and what it is on where the URL says so; NotFound for any other URL."""
        if found := re.fullmatch(rf"{self._api}/issues/comments/([0-9]{{1,18}})", url, re.I):
            return int(found[1]), None
        named = self._named(url)
        if named is None or not named[2]:
            raise NotFound(f"{url!r} is no comment of {self.repo}", hint=self._hint("issue"))
        return named[2], (named[0], named[1])

    def comment_target(self, url: str) -> str:
        """The target of a comment that GitHub says is at that page: `issue-3` or `pr-4`; empty where it is neither."""
        # Whatever the repository is called by now.
        found = re.fullmatch(rf"{re.escape(self.web)}/[^/]+/[^/]+/(issues|pull)/([0-9]{{1,10}})(?:#.*)?", url, re.I)
        return key_of(int(found[2]), _KINDS[found[1].lower()]) if found else ""

    def unknown(self, reference: str, kind: Kind) -> NotFound:
        """The error for a reference to nothing."""
        return NotFound(f"{self.repo} has no {_NOUNS[kind][0]} {reference!r}", hint=self._hint(kind))

    def _hint(self, kind: Kind) -> str:
        host = self.web.removeprefix("https://")
        return f"gh {_NOUNS[kind][1]} list --repo {self.repo if host == 'github.com' else f'{host}/{self.repo}'}"

    @property
    def _api(self) -> str:
        return rf"{re.escape(self.api)}/repos/{re.escape(self.repo)}"

    def _named(self, url: str) -> tuple[int, Kind, int] | None:
        """Number, kind and comment (0: none) in a URL of this repository."""
        place = rf"(?:{re.escape(self.page)}|{self._api})/(issues|pulls?)/([0-9]{{1,10}})/?"
        found = re.fullmatch(rf"{place}(?:#issuecomment-([0-9]{{1,18}}))?", url, re.I)
        return (int(found[2]), _KINDS[found[1].lower()], int(found[3] or 0)) if found else None


def path(*parts: str | int) -> str:
    """A path of these parts, each of them data."""
    said = [str(part) for part in parts]
    if any(part in ("", ".", "..") for part in said):
        raise ForgeRefused(f"{'/'.join(said)!r} cannot be asked for")
    return "/" + "/".join(quote(part, safe="") for part in said)


def key_of(number: int, kind: Kind) -> str:
    """The target that is called so in the port."""
    return f"issue-{number}" if kind == "issue" else f"pr-{number}"


def is_branch(name: str) -> bool:
    """Git and a URL can both hold it as the name of a branch."""
    return 0 < len(name.encode("utf-8", "replace")) < 245 and not _NO_BRANCH.search(name)


def ref_parts(branch: str) -> tuple[str, ...]:
    """A branch as parts of a path below `git/ref`."""
    return ("heads", *branch.split("/"))


def instant(at: datetime | str | None) -> float:
    """Seconds since the epoch; 0 where nobody says."""
    if at is None:
        return 0.0
    return (datetime.fromisoformat(at) if isinstance(at, str) else at).timestamp()


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_STAMP = re.compile(r"^(?:\ufeff)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ", re.M)


def plain_log(text: str) -> str:
    """What a job printed, without colours and without the time before each line."""
    return _ANSI.sub("", _STAMP.sub("", text.removeprefix("\ufeff")))
