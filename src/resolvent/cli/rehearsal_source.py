"""What is rehearsed, and what it is read from: the real forge, and the checkout of it that a person stands in."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from resolvent.adapters.forges.github_place import GitHubPlace
from resolvent.cli.place import repository
from resolvent.cli.remotes import PUBLIC, TOKENS, Remote, github_remotes
from resolvent.errors import ConfigError, UsageError
from resolvent.places import environment, state_directory
from resolvent.settings import load
from resolvent.settings_sections import ForgeSettings
from resolvent.wiring import Home

HERE = "here"


def checkout_of(directory: Path | None, repo: str) -> Path | None:
    """The checkout of what is rehearsed, if a person stands in it."""
    place = _standing(directory)
    if not repo:
        if place is None:
            raise UsageError("--here rehearses what lies in a repository", hint="cd to one, or name it with -C DIR")
        return place
    if place is None:
        return None
    forge = load(place, environ=environment()).forge
    known = {forge.repo.casefold(), *(one.repo.casefold() for one in _remotes(place))}
    return place if repo.casefold() in known else None


def _standing(directory: Path | None) -> Path | None:
    """The repository a person stands in or names; None when there is none and none was named."""
    try:
        return repository(directory)
    except UsageError:
        if directory is not None:
            raise
        return None


def _remotes(place: Path) -> list[Remote]:
    return github_remotes(place, environ=environment())


def state_of(directory: Path | None, repo: str) -> Path:
    """Where rehearsals are kept: with the state of the repository one stands in, or with that of its name."""
    return state_directory(_standing(directory) or Path("/") / (repo or HERE), environ=environment())


def source_of(settings: Sequence[str], checkout: Path | None, repo: str, *, place: Path, host: str = "") -> Home:
    """The real forge, with a state of its own that goes with the copy; UsageError when it is not at the host named."""
    environ, known = environment(), checkout or place
    if not repo:
        return _local(Home.of(known, environ=environ, overrides=settings))
    place.mkdir(mode=0o700)
    overrides = [*settings, 'forge.kind="github"', f'forge.repo="{repo}"']
    forge = load(known, environ=environ, overrides=settings).forge
    remote = _remote(known, forge, repo, host)
    if host and host != remote.host:
        there = Remote("", host, repo).api or "https://api.github.com"
        raise UsageError(
            f"the link leads to {host}, but {repo} is configured to be at {remote.host}",
            hint=f"if you mean the one at {host}, add: --set forge.api={there}",
        )
    if remote.api and not forge.api:
        overrides.append(f'forge.api="{remote.api}"')
    if not forge.token and not forge.app:
        if not (token := remote.token(environ)):
            lacking = f"reading {repo} takes a token, and neither {' nor '.join(TOKENS)} is set"
            raise ConfigError(lacking, hint=remote.login_line)
        overrides.append(f'forge.token="${token}"')
    return Home.of(known, environ={**environ, "RESOLVENT_HOME": str(place)}, overrides=overrides)


def _remote(known: Path, forge: ForgeSettings, repo: str, host: str) -> Remote:
    """Where the repository is: as the settings say if they name it or its server, else as a remote does."""
    if forge.api or (forge.kind == "github" and forge.repo.casefold() == repo.casefold()):
        return Remote("", GitHubPlace(repo, api=forge.api).where.web.removeprefix("https://").lower(), repo)
    # One that a person named may be known by several remotes, on more than one server.
    every = [one for one in _remotes(known) if one.repo.casefold() == repo.casefold()]
    return next((one for one in every if one.host == host), every[0] if every else Remote("", PUBLIC, repo))


def _local(home: Home) -> Home:
    said = home.settings.forge
    if said.kind == "local":
        return home
    raise UsageError(f"the issues of this repository are at {said.repo}", hint=f"resolvent rehearse {said.repo} ISSUE")


def origin_of(said: str) -> str:
    """A path or an https URL, as git may be given it."""
    if not said:
        return ""
    if "://" not in said:
        return str(Path(said).expanduser().absolute())
    parts = urlsplit(said)
    if parts.scheme != "https" or parts.username is not None:
        raise UsageError("--from takes a path, or an https URL without a name or password", hint="git clone it first")
    return said


def plain(name: str) -> str:
    """A name that can be part of a path."""
    return "".join(mark if mark.isascii() and (mark.isalnum() or mark in "._-") else "-" for mark in name)[:40] or "x"
