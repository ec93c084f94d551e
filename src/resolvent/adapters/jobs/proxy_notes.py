"""What the proxy refused, and when a server wants to be asked again, to be read beside the job's output."""

import posix
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.blotting import Blotter
else:
    from blotting import Blotter

# Together they fit into a pipe, so that nobody who forgets to read them stops us.
MOST_NOTES, LONGEST_NOTE, LONGEST_NAME = 200, 300, 120


class Notes:
    """One line per thing, however often it is tried; without the job's secrets."""

    def __init__(self, log: int, secrets: tuple[str, ...] = ()) -> None:
        self._log, self._seen, self._lock = log, set[str](), threading.Lock()
        self._blotter = Blotter(secrets)

    def write(self, deed: str, what: str, why: str) -> None:
        # What a client says is never more than a part of a line.
        named = ascii(self._blotter.whole(what))[1:-1][:LONGEST_NAME]
        line = f"{deed} {named} {self._blotter.whole(why)}"[:LONGEST_NOTE]
        with self._lock:
            if line in self._seen or len(self._seen) >= MOST_NOTES:
                return
            self._seen.add(line)
        with suppress(OSError):
            posix.write(self._log, f"{line}\n".encode("ascii", "backslashreplace"))
