"""Whom a root caller's jobs run as: a user of their own, never root, and nobody whom others rely on."""

import grp
import hashlib
import os
import pwd
from contextlib import suppress
from pathlib import Path

from resolvent.errors import NoSandbox

NAME = "resolvent"
# What systemd gives to services without a user of their own: no distribution puts people or daemons there.
FIRST, LAST = 61184, 65519
_NOBODY = (65534, 65535, 2**32 - 1, 2**32 - 2)


def jobs_user(state: Path) -> int | None:
    """The number, as user and group, that a root caller's jobs get; None for others, whose jobs stay who they are.

    Who owns the branches that are there already; else the user `resolvent` where there is one, else one chosen by the
    state directory, so that two stores have two users.
    """
    if os.geteuid() != 0:
        return None
    kept = state / "sandbox/user"
    number = _chosen(state, kept)
    with suppress(OSError):
        kept.write_text(f"{number}\n")
    return number


def _chosen(state: Path, kept: Path) -> int:
    mapped = _mapped("uid"), _mapped("gid")
    named = _named()
    with suppress(OSError, ValueError):
        number = int(kept.read_text())
        if number == named or (FIRST <= number <= LAST and _within(number, mapped) and not _taken(number)):
            return number
    if named is not None and _within(named, mapped):
        return named
    digest = int.from_bytes(hashlib.sha256(os.fsencode(state.absolute())).digest()[:8], "big")
    span = LAST - FIRST + 1
    for step in range(span):
        number = FIRST + (digest + step) % span
        if _within(number, mapped) and not _taken(number):
            return number
    raise NoSandbox(
        "you are root and there is no other user that jobs could run as: none is mapped into this user namespace",
        hint="run resolvent as a normal user, in a container with: --user 1000:1000",
    )


def _named() -> int | None:
    """The dedicated user, if its number as a group is nobody else's: jobs get that group too."""
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        return None
    if entry.pw_uid in (0, *_NOBODY):
        return None
    if entry.pw_gid == entry.pw_uid:
        return entry.pw_uid
    try:
        grp.getgrgid(entry.pw_uid)
    except KeyError:
        return entry.pw_uid
    return None


def _taken(number: int) -> bool:
    for known in (pwd.getpwuid, grp.getgrgid):
        try:
            known(number)
        except KeyError:
            continue
        return True
    return False


def _mapped(kind: str) -> list[range]:
    """The numbers that exist in the user namespace we are in."""
    found = []
    for line in Path(f"/proc/self/{kind}_map").read_text().splitlines():
        inside, _, count = map(int, line.split())
        found.append(range(inside, inside + count))
    return found


def _within(number: int, mapped: tuple[list[range], list[range]]) -> bool:
    return all(any(number in one for one in ranges) for ranges in mapped)
