"""What doctor says of our rights on GitHub: the scopes of a token, the permissions of an App, the role of the login."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from resolvent.cli.diagnosis import Probe, found
from resolvent.cli.github_standing import Gh, Standing, inner, said, text
from resolvent.settings import Settings

if TYPE_CHECKING:
    from resolvent.adapters.forges.github_place import GitHubPlace

TOKEN, ROLE = "forge token", "forge role"
# What a run needs, in the words of Apps and fine-grained tokens, and what is lost without it: nothing where it says so.
NEEDED = {
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "checks": "read",
    "statuses": "read",
    "actions": "write",
}
BETTER = {
    "workflows": ("write", "a change to .github/workflows cannot be pushed, even if a person allows it"),
    "administration": ("read", "only the rules of a branch are seen, not its protection"),
}
LEVELS = ("", "read", "write", "admin")


def rights(seen: Standing, place: "GitHubPlace", settings: Settings, gh: Gh) -> Iterator[Probe]:
    """Whether we may do what the policy needs."""
    if not place.token:
        yield from _installed(seen, place)
        return
    scopes = seen.me.headers.get("x-oauth-scopes")
    if scopes is None:
        yield from _fine_grained(seen, settings, gh)
    else:
        yield from _classic({one.strip() for one in scopes.split(",") if one.strip()}, seen, settings, gh)
    yield from _role(seen, gh)


def _classic(scopes: set[str], seen: Standing, settings: Settings, gh: Gh) -> Iterator[Probe]:
    named = ", ".join(sorted(scopes)) or "none"
    public = said(seen.repo).get("private") is False
    variable = settings.forge.token
    if "repo" not in scopes and not (public and "public_repo" in scopes):
        fix = f"{_refresh(gh, 'repo,workflow')}, then: export {variable.removeprefix('$')}=$(gh auth token{gh.named})"
        yield found(TOKEN, f"the token in {variable} lacks the scope repo; it has: {named}", state="fault", fix=fix)
        return
    yield found(TOKEN, f"{variable}, with the scopes {named}")
    if "workflow" not in scopes:
        lost = BETTER["workflows"][1]
        yield found(TOKEN, f"it lacks the scope workflow: {lost}", state="note", fix=_refresh(gh, "workflow"))


def _refresh(gh: Gh, scopes: str) -> str:
    return f"gh auth refresh{gh.named} --scopes {scopes}"


def _fine_grained(seen: Standing, settings: Settings, gh: Gh) -> Iterator[Probe]:
    """Such a token does not say what it may do: what it may not read is seen by reading."""
    variable, page = settings.forge.token, f"{gh.where.web}/settings/personal-access-tokens"
    lost = [name for name, answer in seen.reads.items() if answer.status in (403, 404)]
    if lost:
        what = f"the token in {variable} may not read {', '.join(lost)}"
        yield found(TOKEN, what, state="fault", fix=f"give it {_wanted()}: {page}")
        return
    what = f"{variable}, fine-grained: it reads what a run needs; what it may write is seen when it writes"
    yield found(TOKEN, what, state="note", fix=f"see that it has {_wanted()}: {page}")


def _wanted(have: Mapping[str, object] | None = None) -> str:
    """`contents: write, issues: write…`: what is needed and not there."""
    missing = {name: level for name, level in NEEDED.items() if have is None or not _enough(have, name, level)}
    return ", ".join(f"{name.replace('_', ' ')}: {level}" for name, level in missing.items())


def _enough(have: Mapping[str, object], name: str, level: str) -> bool:
    held = have.get(name)
    return held in LEVELS and LEVELS.index(str(held)) >= LEVELS.index(level)


def _installed(seen: Standing, place: "GitHubPlace") -> Iterator[Probe]:
    installation = said(seen.me)
    have = inner(installation, "permissions")
    page = text(installation, "html_url") or f"{place.where.web}/settings/installations/{place.installation}"
    slug = text(installation, "app_slug") or place.app
    change = f"{place.where.web}/settings/apps/{slug}/permissions, then accept it: {page}"
    if installation.get("suspended_at"):
        yield found(TOKEN, f"the installation of {slug} is suspended", state="fault", fix=f"unsuspend it: {page}")
    elif missing := _wanted(have):
        yield found(TOKEN, f"the App {slug} lacks {missing}", state="fault", fix=f"add it: {change}")
    else:
        yield found(TOKEN, f"the App {slug}, installed on {place.where.repo}")
        for name, (level, lost) in BETTER.items():
            if not _enough(have, name, level):
                yield found(TOKEN, f"it lacks {name}: {level}: {lost}", state="note", fix=f"add it: {change}")


def _role(seen: Standing, gh: Gh) -> Iterator[Probe]:
    may = inner(said(seen.repo), "permissions")
    role = next((name for name in ("admin", "maintain", "push", "triage", "pull") if may.get(name) is True), "none")
    spoken = {"push": "write", "pull": "read"}.get(role, role)
    login = text(said(seen.me), "login")
    if role in ("admin", "maintain", "push"):
        yield found(ROLE, f"{login} may {spoken}" if role == "push" else f"{login} has the role {spoken}")
        return
    fix = f"an admin types: {gh.api} --method PUT repos/{gh.where.repo}/collaborators/{login} -f permission=push"
    what = f"{login} may not push to {gh.where.repo}: it has the role {spoken}"
    yield found(ROLE, what, state="fault", fix=fix)
