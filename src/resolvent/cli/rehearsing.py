"""Rehearse for a person: let it play, and print what would have happened."""

import asyncio
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

from resolvent.cli.demo import program
from resolvent.cli.rehearsal_source import HERE, checkout_of, origin_of, plain, source_of, state_of
from resolvent.cli.terminal import one_line, stderr, stdout
from resolvent.cli.words import emit
from resolvent.domain.entry import Entry, entry_point
from resolvent.errors import ConfigError, ResolventError
from resolvent.places import environment
from resolvent.wiring import Home

LIBRARIES = ("githubkit", "graphql", "hishel", "starlette", "trustme", "uvicorn")

if TYPE_CHECKING:
    from resolvent.rehearsing.rehearsal import Rehearsal
    from resolvent.rehearsing.running import Rehearsed


@dataclass(frozen=True)
class Asked:
    """What a person typed."""

    settings: tuple[str, ...]
    ci: Literal["passed", "failed", "none"]
    origin: str
    keep: bool
    unsafe: bool
    json: bool


def _equipped() -> None:
    """ConfigError when a library is missing that a rehearsal takes."""
    lacking = [name for name in LIBRARIES if find_spec(name) is None]
    if lacking:
        hint = "pip install '.[github,rehearsal]'  # where you cloned Resolvent"
        raise ConfigError(f"a rehearsal takes more than is installed: {', '.join(lacking)}", hint=hint)


async def rehearsed(asked: Asked, repo: str, target: str, host: str, *, directory: Path | None) -> int:
    """Copy it, play it, tell it; the exit code is the run's. The host is that of a link; empty: as configured."""
    _equipped()
    from resolvent.rehearsing.rehearsal import fresh
    from resolvent.rehearsing.running import begun

    entry, checkout = entry_point(target), checkout_of(directory, repo)
    name = plain(repo.rpartition("/")[2] or (checkout.name if checkout else HERE))
    place = fresh(state_of(checkout or directory, repo), f"{name}-{entry.reference}")
    try:
        source = source_of(asked.settings, checkout, repo, place=place / "source", host=host)
        try:
            rehearsal = await _copied(asked, source, entry, place, repo or f"{HERE}/{name}")
        finally:
            await source.close()
        await _configured(asked, rehearsal, checkout)
    except BaseException:
        # Half a copy is of no use to anybody.
        _removed(place)
        raise
    _removed(place / "source")
    return await _played(rehearsal, begun(rehearsal), json=asked.json)


async def _copied(asked: Asked, source: Home, entry: Entry, directory: Path, repo: str) -> "Rehearsal":
    from resolvent.rehearsing.rehearsal import Rehearsal
    from resolvent.rehearsing.running import copied

    rehearsal = Rehearsal(directory, repo, "issue", 0, login="", ci=asked.ci, kept=asked.keep, unsafe=asked.unsafe)
    if not asked.json:
        stderr().say(f"copying #{entry.reference} of {repo}, which is only read")
    return await copied(source, entry, rehearsal, origin=origin_of(asked.origin))


async def _configured(asked: Asked, rehearsal: "Rehearsal", checkout: Path | None) -> None:
    """Settle what the run obeys, and say what of it a person may not expect."""
    from resolvent.rehearsing.configuring import adopt

    left = await asyncio.to_thread(adopt, rehearsal.project, checkout, asked.settings)
    if left:
        stderr().say(
            one_line(f"left out what {rehearsal.repo} says in {', '.join(left)}: it is not a checkout of yours"),
            "clone it and stand in it to use them",
        )
    if asked.unsafe:
        stderr().say("warning: with --unsafe agents and checks reach all that you do, the real forge too")


def _removed(directory: Path) -> None:
    from resolvent.adapters.workspace.files import remove_tree

    try:
        remove_tree(directory)
    except ResolventError as error:
        stderr().say(f"warning: {one_line(error.message)}")


async def go_on_with(id: str, choice: str, *, json: bool, directory: Path | None) -> int:
    """Serve a rehearsal's forge again and go on with its run, after an answer if one is given."""
    _equipped()
    from resolvent.cli.words import person
    from resolvent.rehearsing.rehearsal import taken_up
    from resolvent.rehearsing.running import onward

    rehearsal = taken_up(state_of(directory, ""), id)
    words = await onward(rehearsal, environment(), by=person(), choice=choice)
    return await _played(rehearsal, words, json=json)


async def _played(rehearsal: "Rehearsal", words: list[str], *, json: bool) -> int:
    from resolvent.rehearsing.running import Play, played

    try:
        came = await played(rehearsal, Play(environment(), quiet=json), words=words)
    except BaseException:
        # The copy is whole: whatever stopped us, it can be gone on with.
        stderr().say(f"to go on: {_look(rehearsal)['go on']}")
        raise
    if json:
        emit(_document(rehearsal, came))
    else:
        _tell(rehearsal, came)
    return came.code


# --- what is told


def _look(rehearsal: "Rehearsal") -> dict[str, str]:
    """What to type to look around."""
    place, typed = quote(str(rehearsal.directory)), program()
    return {
        "forge": f"{typed} forge serve --directory {place}/forge --repo {rehearsal.repo}",
        "change": f"RESOLVENT_HOME={place}/state {typed} diff -C {place}/project",
        "report": f"{place}/report.html",
        # By its place: a name would only be known where the person stands now.
        "go on": f"{typed} rehearse --go-on {place}",
    }


def _document(rehearsal: "Rehearsal", came: "Rehearsed") -> dict[str, Any]:
    look = _look(rehearsal)
    return {
        "rehearsal": rehearsal.id,
        "directory": str(rehearsal.directory),
        "repo": rehearsal.repo,
        "subject": f"{'issue' if rehearsal.kind == 'issue' else 'pr'}-{rehearsal.number}",
        "login": rehearsal.login,
        "ci": rehearsal.ci,
        "would": [one.model_dump(mode="json", exclude={"key"}) for one in came.would],
        "run": came.document,
        "report": str(rehearsal.report) if came.document else None,
        "look": look["forge"],
        "go_on": look["go on"] if came.to_go_on else None,
    }


def _tell(rehearsal: "Rehearsal", came: "Rehearsed") -> None:
    terminal, look = stdout(), _look(rehearsal)
    terminal.say("")
    if came.would:
        done = f"what {rehearsal.login} would have done on {rehearsal.repo}"
        # Without walls that is more than we know.
        none = "" if rehearsal.unsafe else "; nothing of it was done there"
        terminal.say(terminal.paint(f"{one_line(done)}{none}:", "bold"))
        rows = [(one.what, one.where, (one.said, "dim")) for one in came.would]
        terminal.say(*terminal.table(rows, align="<<="))
    else:
        terminal.say(f"on {rehearsal.repo} nothing would have been written")
    terminal.say("", f"the forge:  {look['forge']}")
    if came.document:
        terminal.say(f"the change: {look['change']}", f"the report: {look['report']}")
    if came.to_go_on:
        asks = came.document["decision"] if came.document else None
        terminal.say(f"next: {look['go on']}" + (f" --decide {quote(asks['choices'][0])}" if asks else ""))
