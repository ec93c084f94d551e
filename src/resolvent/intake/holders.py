"""The name under which a subject is claimed on the forge: which machine, which store, which run, since when."""

import re
import socket
from datetime import UTC, datetime
from hashlib import sha256

from resolvent.wiring import Home

_STAMP = "%Y%m%dT%H%M%SZ"
_HOLDER = re.compile(r"(?P<host>[\w-]+)\.(?P<store>[0-9a-f]{8})\.(?P<run>[\w-]+)\.(?P<since>\d{8}T\d{6}Z)", re.ASCII)


def holder_name(home: Home, run: str) -> str:
    """`machine.store.run.since`: others can tell whom to ask, and since when."""
    host = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname()).strip("-")[:40] or "host"
    store = sha256(f"{home.store_url}\n{home.state}".encode()).hexdigest()[:8]
    since = datetime.fromtimestamp(home.clock.now(), UTC).strftime(_STAMP)
    return f"{host}.{store}.{run}.{since}"


def holder_said(holder: str) -> str:
    """A holder as people read it."""
    found = _HOLDER.fullmatch(holder)
    if not found:
        return holder
    since = datetime.strptime(found["since"], _STAMP)
    return f"run {found['run']} on {found['host']} (store {found['store']}) since {since:%Y-%m-%d %H:%M} UTC"


def holder_run(holder: str) -> str:
    """The run that is in a holder's name; empty when it is no name of ours."""
    found = _HOLDER.fullmatch(holder)
    return found["run"] if found else ""
