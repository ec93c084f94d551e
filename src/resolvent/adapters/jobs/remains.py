"""What a job leaves behind whose supervisor was killed: without namespaces its processes go on by themselves."""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

from resolvent.adapters.jobs.processes import boot, born

SESSION, STARTED_AT = 3, 19  # fields of /proc/PID/stat after the name


def end_session(directory: Path) -> None:
    """Kill all that is left in the session of a job that nobody watches any more; return when it is gone.

    What made a session of its own is not found.
    """
    try:
        leader, since, then = (directory / "session").read_text().split(" ")
    except (FileNotFoundError, ValueError):
        return
    # A number means a session only as long as somebody is in it: a leader of another birth has taken it over.
    if then != boot() or born(int(leader)) not in (0, int(since)):
        return
    while members := list(_members(int(leader), since=int(since))):
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(member, signal.SIGKILL)
            # It becomes readable when the process ended; one that hangs in the kernel ends when it can.
            select.select([member], [], [], 5)
            os.close(member)


def _members(leader: int, *, since: int) -> Iterator[int]:
    """A descriptor of each living process in the session that began no sooner than its leader."""
    for place in Path("/proc").iterdir():
        if not place.name.isdecimal() or not _in_session(place, leader, since=since):
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            held = os.pidfd_open(int(place.name))
            # Looked at again, now that its number cannot be another's.
            if _in_session(place, leader, since=since):
                yield held
            else:
                os.close(held)


def _in_session(place: Path, leader: int, *, since: int) -> bool:
    try:
        fields = (place / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] != b"Z" and int(fields[SESSION]) == leader and int(fields[STARTED_AT]) >= since
