"""The detached supervisor of one job, forked by the nursery with the order on its stdin.

It holds the job's lock by an inherited descriptor until it is gone, so whoever gets the lock knows that nobody watches
the job. It imports what the interpreter has built in: `json`, `signal` and `ctypes` would double the nursery's start.
"""

import _json
import _signal  # type: ignore[import-not-found]
import marshal
import posix
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.beginning import Beginning
    from resolvent.adapters.jobs.keep import Keeper
    from resolvent.adapters.jobs.native import native
    from resolvent.adapters.jobs.output import CHUNK, Output, leave, there, written
    from resolvent.adapters.jobs.processes import descendants, in_a_box, signal_all
else:
    from beginning import Beginning
    from keep import Keeper
    from native import native
    from output import CHUNK, Output, leave, there, written
    from processes import descendants, in_a_box, signal_all

ROOM_FOR_EXIT = 8192
DIRECTORY_CHANGED = 0x40 | 0x80 | 0x100 | 0x200  # IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE
SET_CHILD_SUBREAPER = 36
UNWATCHED_S = 1.0  # how late a cancel may be noticed where the kernel has no inotify left for us
LONGEST_S = 86400.0
DYING_S = 60.0  # how long what was killed may take to be gone: a process in a disk that hangs never is


class Stopwatch:
    """Seconds that passed while no `pause` file was there."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.paused = there("pause")
        self._seen = time.monotonic()

    def tick(self) -> None:
        now = time.monotonic()
        if not self.paused:
            self.seconds += now - self._seen
        self._seen, self.paused = now, there("pause")


class Supervisor:
    """One job, from its order to its exit.json."""

    def __init__(self) -> None:
        with open(0, "rb", closefd=False) as order:
            self._order = marshal.load(order)
        self._exit = written("exit.json.tmp")
        # Kept from the start: a disk that fills up later cannot stop us from telling how the job ended.
        posix.posix_fallocate(self._exit, 0, ROOM_FOR_EXIT)
        self._keeper = Keeper(self._order) if self._order["box"] else None
        names = ("output", "errors") if self._order["streams"] == "apart" else ("output",)
        self._output = Output(names, self._order["limits"]["output_bytes"], self._order["secrets"])
        self._pid = 0
        self._status: int | None = None
        self._clock = Stopwatch()
        self._heard = 0.0
        self._poll = select.poll()
        self._listen()

    def _listen(self) -> None:
        native("prctl", SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        ended, wake = posix.pipe2(posix.O_NONBLOCK | posix.O_CLOEXEC)
        _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        self._changed = _directory_changes()
        alarm = self._keeper.alarm if self._keeper else -1
        for source in (ended, *self._output.files, *(fd for fd in (self._changed, alarm) if fd >= 0)):
            self._poll.register(source, select.POLLIN)

    def run(self) -> None:
        """Start the command, watch it, leave nothing of it behind, and tell how it ended."""
        begun_at, begun = self._now(), time.monotonic()
        if not there("cancel") and self._keeper and (why := self._keeper.hold()):
            # Not an end: it never began, and may begin when it is let in again.
            self._keeper.close()
            leave("kept-out", why)
            return
        leave("started", f'{{"pid": {posix.getpid()}, "at": {begun_at!r}}}')
        ending, message = ("cancelled", "") if there("cancel") else self._start()
        while not (ending := ending or self._reason()):
            self._turn(self._patience())
        # What took too much memory or disk gets no grace to take more.
        if self._pid and self._status is None and ending not in ("memory", "disk"):
            self._terminate()
        seconds = time.monotonic() - begun
        left = self._sweep()
        self._output.settle()
        if ending == "exited" and self._output.over:
            ending = "output"
        if self._keeper:
            ending = self._keeper.ending(ending)
            self._keeper.close()
        self._record(ending, message or self._output.lost or left, begun_at=begun_at, seconds=seconds)

    def _now(self) -> float:
        frozen = self._order["frozen_at"]
        return time.time() if frozen is None else float(frozen)

    def _start(self) -> tuple[str, str]:
        """Fork the command; the ending and its message when it cannot be started."""
        begun = Beginning(self._order, self._output.ends, self._keeper)
        self._pid = begun.pid
        ending = self._heard_of(begun.report)
        problem = None if ending else begun.problem()
        posix.close(begun.report)
        if ending:
            return ending, "it had not begun yet"
        if not problem:
            return "", ""
        exit, message = problem
        signal_all([self._pid], _signal.SIGKILL)
        posix.waitpid(self._pid, 0)
        self._status = exit << 8
        if self._keeper:
            return "unstartable", f"the box cannot be built: {message or self._output.last_words()}"
        return "unstartable", f"the command cannot be started: {message}"

    @property
    def _apart(self) -> bool:
        """It has namespaces of its own, which end with their first process."""
        return bool(self._keeper and self._order["box"]["walls"] == "namespaces")

    def _heard_of(self, report: int) -> str:
        """Wait for the first word; why there is no more waiting when it does not come: a disk may hang for ever."""
        listening = select.poll()
        for source in (report, self._changed):
            if source >= 0:
                listening.register(source, select.POLLIN)
        while not (ending := self._over_before()):
            left = LONGEST_S if self._clock.paused else self._order["limits"]["wall_s"] - self._clock.seconds
            ready = listening.poll(_milliseconds(left if self._changed >= 0 else min(left, UNWATCHED_S)))
            self._clock.tick()
            if any(source == report for source, _ in ready):
                return ""
            if ready:
                posix.read(self._changed, CHUNK)  # only a wake-up
        return ending

    def _over_before(self) -> str:
        """Why the job is over, or must be, though it has not begun; or nothing."""
        if there("cancel"):
            return "cancelled"
        return "wall" if self._clock.seconds >= self._order["limits"]["wall_s"] else ""

    def _reason(self) -> str:
        """Why the job is over or must be, or nothing."""
        limits = self._order["limits"]
        if self._status is not None:
            return "exited"
        if there("cancel"):
            return "cancelled"
        if self._output.over:
            return "output"
        if self._keeper and (taken := self._keeper.reason()):
            return taken
        if self._clock.seconds >= limits["wall_s"]:
            return "wall"
        idle = limits["idle_s"]
        return "idle" if idle is not None and self._clock.seconds - self._heard >= idle else ""

    def _patience(self) -> float | None:
        """How long nothing needs to be looked at unless something happens."""
        limits = self._order["limits"]
        until = [limits["wall_s"]] if limits["idle_s"] is None else [limits["wall_s"], self._heard + limits["idle_s"]]
        left = None if self._clock.paused else float(min(until)) - self._clock.seconds
        look = (self._keeper.due if self._keeper else None, None if self._changed >= 0 else UNWATCHED_S)
        return min((seconds for seconds in (left, *look) if seconds is not None), default=None)

    def _turn(self, seconds: float | None) -> None:
        """Wait for something to happen, at most that long, and take it in."""
        ready = self._poll.poll(None if seconds is None else _milliseconds(seconds))
        self._clock.tick()
        for source, _ in ready:
            if source not in self._output.files:
                posix.read(source, CHUNK)  # only a wake-up: what happened is looked up afresh
            elif self._output.take(source):
                self._heard = self._clock.seconds
            else:
                self._poll.unregister(source)
        self._reap()

    def _reap(self) -> bool:
        """Take note of all that ended; whether there are children yet."""
        try:
            while (found := posix.waitpid(-1, posix.WNOHANG)) != (0, 0):
                self._note(*found)
        except ChildProcessError:
            return False
        return True

    def _note(self, pid: int, status: int) -> None:
        if pid == self._pid:
            self._status = status

    def _terminate(self) -> None:
        """Ask everyone to end and give the command its grace; what it leaves behind gets none."""
        everyone = descendants(posix.getpid())
        # Outside of a box of namespaces there are only those that keep it: their end would leave it no grace.
        signal_all([pid for pid in everyone if in_a_box(pid)] if self._apart else everyone, _signal.SIGTERM)
        over = time.monotonic() + self._order["limits"]["grace_s"]
        while self._status is None and (left := over - time.monotonic()) > 0:
            self._turn(left)

    def _sweep(self) -> str:
        """Kill until nothing is left; each death may hand us orphans that were forked meanwhile. What would not die."""
        over = time.monotonic() + DYING_S
        while self._reap():
            left = descendants(posix.getpid())
            if time.monotonic() >= over:
                return f"it left processes that cannot be killed: {' '.join(map(str, left))}"
            signal_all(left, _signal.SIGKILL)
            self._turn(over - time.monotonic())
        return ""

    def _record(self, ending: str, message: str, *, begun_at: float, seconds: float) -> None:
        status = self._status if self._status is not None else _signal.SIGTERM
        code = posix.waitstatus_to_exitcode(status)
        text = (
            f'{{"ending": "{ending}", "exit": {code if code >= 0 else 128 - code}, "started_at": {begun_at!r}, '
            f'"ended_at": {self._now()!r}, "seconds": {seconds!r}, '
            f'"message": {_json.encode_basestring_ascii(self._output.blotted(message))}}}\n'
        ).encode()
        posix.pwrite(self._exit, text, 0)
        posix.ftruncate(self._exit, len(text))
        posix.fsync(self._exit)
        posix.rename("exit.json.tmp", "exit.json")


def _directory_changes() -> int:
    """A descriptor that becomes readable when files come and go here; -1 where the kernel has none left for us."""
    try:
        changed = native("inotify_init1", posix.O_NONBLOCK | posix.O_CLOEXEC)
    except OSError:
        return -1
    try:
        native("inotify_add_watch", changed, b".", DIRECTORY_CHANGED)
    except OSError:
        posix.close(changed)
        return -1
    return changed


def _milliseconds(seconds: float) -> int:
    return max(0, int(min(seconds, LONGEST_S) * 1000) + 1)


def main(directory: bytes, lock: int) -> None:
    """Supervise the job of that directory from its order to its exit; returns never."""
    posix.chdir(directory)
    for inherited in posix.listdir("/proc/self/fd"):
        if int(inherited) > 2 and there(f"/proc/self/fd/{inherited}"):
            posix.set_inheritable(int(inherited), False)
    supervisor = Supervisor()
    posix.dup2(posix.open("/dev/null", posix.O_RDONLY), 0)
    supervisor.run()
    # All is done and told: nobody shall wait while the kernel clears up its watches, nor for the interpreter's end.
    posix.close(lock)
    posix._exit(0)
