"""What doctor says of what a box shows of this machine: the named places and hosts, and what of PATH is left out."""

import os
from collections.abc import Iterator

from resolvent.cli.diagnosis import Probe, found
from resolvent.errors import ResolventError
from resolvent.wiring import PLAIN_PATH, Home

READS, NETWORK = "box reads", "box network"
EDIT = "add what checks need to sandbox.reads in resolvent.toml"
STRONGER = "mend what the sandbox lacks, above"


async def sights(home: Home) -> list[Probe]:
    """Nothing where there are no boxes."""
    if home.settings.sandbox.rung == "plain":
        return []
    return [_reads(home), *_places(home), await _network(home), *_left_out(home)]


def _reads(home: Home) -> Probe:
    reads = home.settings.sandbox.reads
    if not reads:
        return found(READS, "the system only: agents and checks see nothing of your home")
    return found(READS, f"{', '.join(reads)}: agents and checks see nothing else of your home")


def _places(home: Home) -> Iterator[Probe]:
    """Every place that settings name: broken ones, those that show too much, and what single agents get."""
    for path in home.settings.sandbox.reads:
        yield from _judged(home, path, key="sandbox.reads")
    for name, agent in home.settings.agents.defined.items():
        given = {"reads": agent.reads, "writes": agent.writes}
        said = "; ".join(f"{kind} {', '.join(paths)}" for kind, paths in given.items() if paths)
        if said:
            yield found(f"box {name}", said)
        for kind, paths in given.items():
            for path in paths:
                yield from _judged(home, path, key=f"agents.{name}.{kind}")


def _judged(home: Home, path: str, *, key: str) -> Iterator[Probe]:
    place = os.path.abspath(_expanded(home, path))
    own = os.path.realpath(home.environ.get("HOME") or "/nonexistent")
    if not os.path.exists(place):
        mend = f"mkdir -p {path}" if key.endswith(".writes") else f"take it out of {key}"
        yield found(key, f"{path} does not exist", state="fault", fix=f"{mend}, or name another place")
    elif os.path.realpath(place) == "/":
        yield found(key, "/ is never shown", state="note", fix=f"name directories below it in {key}")
    elif _below(own, (os.path.realpath(place),)):
        what = f"{path} is your whole home, with every key and token in it"
        yield found(key, what, state="note", fix=f"name single directories in {key}")


async def _network(home: Home) -> Probe:
    named = ", ".join(home.settings.sandbox.network)
    if named and await _kind(home) == "landlock":
        return found(NETWORK, f"none: {named} cannot be reached from this rung", state="note", fix=STRONGER)
    return found(NETWORK, f"{named} and nothing else" if named else "none")


async def _kind(home: Home) -> str | None:
    try:
        return (await home.rung()).kind
    except ResolventError:
        # That is said elsewhere; here it is what boxes would show if there were any.
        return None


def _left_out(home: Home) -> Iterator[Probe]:
    """The directories of PATH that a box does not show: programs in there are not found by checks."""
    from resolvent.adapters.workspace.confine import SYSTEM

    named = [_expanded(home, path) for path in home.settings.sandbox.reads]
    seen = (*SYSTEM, *(spelt(path) for path in named for spelt in (os.path.abspath, os.path.realpath)))
    entries = dict.fromkeys(home.environ.get("PATH", PLAIN_PATH).split(":"))
    lost = [entry for entry in entries if os.path.isabs(entry) and os.path.isdir(entry) and not _below(entry, seen)]
    if lost:
        said = f"these are not in a box: {', '.join(_short(home, entry) for entry in lost)}"
        yield found("box path", said, state="note", fix=EDIT)


def _expanded(home: Home, path: str) -> str:
    return path.replace("~", home.environ.get("HOME", ""), 1) if path.startswith("~/") else path


def _short(home: Home, path: str) -> str:
    own = home.environ.get("HOME", "")
    return f"~{path.removeprefix(own)}" if own not in ("", "/") and path.startswith(f"{own}/") else path


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)
