"""What GitHub says of us and of the repository, read once for doctor; nothing is written there to learn it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from resolvent.ports import Clock

if TYPE_CHECKING:
    from resolvent.adapters.forges.github_place import GitHubPlace, Where
    from resolvent.adapters.forges.github_refusals import Answer
    from resolvent.adapters.forges.github_wire import Wire


@dataclass(frozen=True)
class Standing:
    """The answers, each as it came; what was not worth asking any more is not there."""

    # Who we are: /user, or the installation of our App.
    me: "Answer"
    # How far their clock is ahead of ours, in seconds.
    ahead: float = 0.0
    repo: "Answer | None" = None
    protection: "Answer | None" = None
    rules: "Answer | None" = None
    limits: "Answer | None" = None
    hooks: "Answer | None" = None
    # One listing of each kind of thing, for tokens that do not say what they may read.
    reads: "Mapping[str, Answer]" = field(default_factory=dict)


@dataclass(frozen=True)
class Gh:
    """What to type: `gh` for a repository on that server."""

    where: "Where"

    @property
    def host(self) -> str:
        return self.where.web.removeprefix("https://")

    @property
    def repo(self) -> str:
        return self.where.repo if self.host == "github.com" else f"{self.host}/{self.where.repo}"

    @property
    def api(self) -> str:
        if ":" in self.host:
            # The option takes no port.
            return f"GH_HOST={self.host} gh api"
        return "gh api" if self.host == "github.com" else f"gh api --hostname {self.host}"

    @property
    def named(self) -> str:
        """The option for commands about accounts."""
        return "" if self.host == "github.com" else f" --hostname {self.host}"


async def standing(place: "GitHubPlace", clock: Clock, *, hooks: bool) -> Standing:
    """Ask all that doctor looks at; ForgeDown when nobody answers."""
    from resolvent.adapters.forges.github_budget import Budget
    from resolvent.adapters.forges.github_wire import Wire

    wire = Wire(replace(place, cache=None), Budget(reserve=0, now=clock.now))
    try:
        me = await wire.ask("GET", "/user" if place.token else f"/app/installations/{place.installation}")
        found = Standing(me, ahead=_ahead(me, clock.now()))
        if me.status in (401, 404):
            return found
        found = replace(found, limits=await wire.ask("GET", "/rate_limit"))
        repo = await wire.ask("GET", place.where.path())
        found = replace(found, repo=repo)
        return await _inside(wire, place, found, hooks=hooks) if repo.status == 200 else found
    finally:
        await wire.close()


async def _inside(wire: "Wire", place: "GitHubPlace", found: Standing, *, hooks: bool) -> Standing:
    """What there is to see in a repository that we can see."""
    where, branch = place.where, text(said(found.repo), "default_branch")
    paths = {"hooks": where.path("hooks")} if hooks else {}
    if branch:
        paths["protection"] = where.path("branches", branch, "protection")
        paths["rules"] = where.path("rules", "branches", *branch.split("/"))
    if place.token and "x-oauth-scopes" not in found.me.headers:
        paths |= {"issues": where.path("issues"), "pull requests": where.path("pulls")}
        paths |= {"contents": where.path("branches"), "checks": where.path("commits", branch or "HEAD", "check-runs")}
    answers = await asyncio.gather(*(wire.ask("GET", path, params={"per_page": 100}) for path in paths.values()))
    told = dict(zip(paths, answers, strict=True))
    hooked, protection, rules = (told.pop(name, None) for name in ("hooks", "protection", "rules"))
    return replace(found, hooks=hooked, protection=protection, rules=rules, reads=told)


def _ahead(answer: "Answer", now: float) -> float:
    try:
        return parsedate_to_datetime(answer.headers["date"]).timestamp() - now
    except (KeyError, ValueError):
        return 0.0


# --- whatever it says, of any type, without falling over it


def said(answer: "Answer | None") -> Mapping[str, Any]:
    """The object it answered with; empty when it is none."""
    return answer.said if answer is not None and answer.status == 200 else {}


def listed(answer: "Answer | None") -> list[Mapping[str, Any]]:
    """The objects of the list it answered with."""
    import json

    if answer is None or answer.status != 200:
        return []
    try:
        found = json.loads(answer.body)
    except ValueError:
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def inner(thing: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object in an object."""
    found = thing.get(name)
    return found if isinstance(found, dict) else {}


def text(thing: Mapping[str, Any], name: str) -> str:
    """A text in an object."""
    found = thing.get(name)
    return found if isinstance(found, str) else ""


def number(thing: Mapping[str, Any], name: str) -> int:
    """A number in an object."""
    found = thing.get(name)
    return found if isinstance(found, int) else 0


def texts(thing: Mapping[str, Any], name: str) -> list[str]:
    """The texts of a list in an object."""
    found = thing.get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def objects(thing: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects of a list in an object."""
    found = thing.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
