"""Rehearse for a person: let it play, and print what would have happened."""

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
    from resolvent.rehearsing.running import Play, Rehearsed


@dataclass(frozen=True)
class Asked:
    """What a person typed."""

    settings: tuple[str, ...]
    ci: Literal["passed", "failed", "none"]
    origin: str
    keep: bool
    unsafe: bool
    json: bool
    directory: Path | None


def _equipped() -> None:
    """ConfigError when a library is missing that a rehearsal takes."""
    lacking = [name for name in LIBRARIES if find_spec(name) is None]
    if lacking:
        hint = "pip install '.[github,rehearsal]'  # where you cloned Resolvent"
        raise ConfigError(f"a rehearsal takes more than is installed: {', '.join(lacking)}", hint=hint)


async def rehearsed(asked: Asked, repo: str, target: str) -> int:
    """Copy it, play it, tell it; the exit code is the run's."""
    _equipped()
    from resolvent.rehearsing.rehearsal import fresh
    from resolvent.rehearsing.running import Play

    entry, checkout = entry_point(target), checkout_of(asked.directory, repo)
    name = plain(repo.rpartition("/")[2] or (checkout.name if checkout else HERE))
    directory = fresh(state_of(checkout or asked.directory, repo), f"{name}-{entry.reference}")
    try:
        source = source_of(asked.settings, checkout, repo, place=directory / "source")
        try:
            rehearsal = await _copied(asked, source, entry, directory, repo or f"{HERE}/{name}")
        finally:
            await source.close()
    except BaseException:
        # Half a copy is of no use to anybody.
        _removed(directory)
        raise
    _removed(directory / "source")
    play = Play(environment(), asked.settings, quiet=asked.json, checkout=checkout)
    return await _played(rehearsal, play, _words(rehearsal, unsafe=asked.unsafe), json=asked.json)


async def _copied(asked: Asked, source: Home, entry: Entry, directory: Path, repo: str) -> "Rehearsal":
    from resolvent.rehearsing.rehearsal import Rehearsal
    from resolvent.rehearsing.running import copied

    rehearsal = Rehearsal(directory, repo, "issue", 0, login="", ci=asked.ci, kept=asked.keep)
    if not asked.json:
        stderr().say(f"copying #{entry.reference} of {repo}, which is only read")
    return await copied(source, entry, rehearsal, origin=origin_of(asked.origin))


def _removed(directory: Path) -> None:
    from resolvent.adapters.workspace.files import remove_tree

    try:
        remove_tree(directory)
    except ResolventError as error:
        stderr().say(f"warning: {one_line(error.message)}")


async def go_on_with(asked: Asked, id: str, choice: str) -> int:
    """Serve a rehearsal's forge again and go on with its run, after an answer if one is given."""
    _equipped()
    from resolvent.app import App
    from resolvent.cli.words import person
    from resolvent.rehearsing.leading import TOKEN
    from resolvent.rehearsing.rehearsal import taken_up
    from resolvent.rehearsing.running import Play

    environ = environment()
    rehearsal = taken_up(state_of(asked.directory, ""), id)
    if choice:
        there = App.at(rehearsal.project, environ={**environ, "RESOLVENT_HOME": str(rehearsal.state), TOKEN: "-"})
        try:
            await there.decide("last", choice, by=person())
        finally:
            await there.home.close()
    return await _played(rehearsal, Play(environ, quiet=asked.json), ["watch"], json=asked.json)


async def _played(rehearsal: "Rehearsal", play: "Play", words: list[str], *, json: bool) -> int:
    from resolvent.rehearsing.running import played

    came = await played(rehearsal, play, words=words)
    if json:
        emit(_document(rehearsal, came))
    else:
        _tell(rehearsal, came)
    return came.code


def _words(rehearsal: "Rehearsal", *, unsafe: bool) -> list[str]:
    about = [str(rehearsal.number)] if rehearsal.kind == "issue" else ["--pr", str(rehearsal.number)]
    return ["resolve", *about, *(["--unsafe"] if unsafe else [])]


# --- what is told


def _look(rehearsal: "Rehearsal") -> dict[str, str]:
    """What to type to look around."""
    place, typed = quote(str(rehearsal.directory)), program()
    return {
        "forge": f"{typed} forge serve --directory {place}/forge --repo {rehearsal.repo}",
        "change": f"RESOLVENT_HOME={place}/state {typed} diff -C {place}/project",
        "report": f"{place}/report.html",
        "go on": f"{typed} rehearse --go-on {rehearsal.id}",
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
    }


def _tell(rehearsal: "Rehearsal", came: "Rehearsed") -> None:
    terminal, look = stdout(), _look(rehearsal)
    terminal.say("")
    if came.would:
        done = f"what {rehearsal.login} would have done on {rehearsal.repo}"
        terminal.say(terminal.paint(f"{one_line(done)}; nothing of it was done there:", "bold"))
        rows = [(one.what, one.where, (one.said, "dim")) for one in came.would]
        terminal.say(*terminal.table(rows, align="<<="))
    else:
        terminal.say(f"on {rehearsal.repo} nothing would have been written")
    terminal.say("", f"the forge:  {look['forge']}")
    if came.document:
        terminal.say(f"the change: {look['change']}", f"the report: {look['report']}")
    if came.document and came.document["decision"]:
        terminal.say(f"next: {look['go on']} --decide {quote(came.document['decision']['choices'][0])}")
