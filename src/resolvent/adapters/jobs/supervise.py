"""The detached supervisor of one job, forked by the nursery with the order on its stdin.

It holds the job's lock by an inherited descriptor until it is gone, so whoever gets the lock knows that nobody watches
the job. It imports what the interpreter has built in: `json`, `signal` and `ctypes` would double the nursery's start.
"""

import _ctypes
import _json
import _signal  # type: ignore[import-not-found]
import marshal
import posix
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs import keep, launch
else:
    keep, launch = __import__("keep"), __import__("launch")

ROOM_FOR_EXIT = 8192
CHUNK = 1 << 16
MISSING = (2, 20)  # ENOENT, ENOTDIR
DIRECTORY_CHANGED = 0x40 | 0x80 | 0x100 | 0x200  # IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36
UNWATCHED_S = 1.0  # how late a cancel may be noticed where the kernel has no inotify left for us
LONGEST_S = 86400.0


class _Native(_ctypes.CFuncPtr):
    _flags_ = 1  # the C calling convention


def native(name: str, *arguments: int | bytes) -> int:
    """Call a function of the C library that Python does not offer."""
    return int(_Native(_ctypes.dlsym(_ctypes.dlopen(None, 0), name))(*arguments))  # type: ignore[arg-type]


def there(name: str) -> bool:
    return posix.access(name, posix.F_OK)


def written(name: str) -> int:
    return posix.open(name, posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC, 0o600)


def leave(name: str, text: str) -> None:
    file = written(f"{name}.tmp")
    posix.write(file, text.encode())
    posix.close(file)
    posix.rename(f"{name}.tmp", name)


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


class Output:
    """What the process says, in files with a cap; the rest is read and dropped, so that nobody blocks on it."""

    def __init__(self, names: tuple[str, ...], cap: int) -> None:
        self.over = False
        self.lost = ""
        self._left = cap
        pipes = [posix.pipe() for _ in names]
        self.files = {source: written(name) for (source, _), name in zip(pipes, names, strict=True)}
        self.ends = [end for _, end in pipes]
        # The time of the last word on any stream, for whoever wonders whether the job still lives.
        self._heartbeat = self.files[pipes[0][0]]
        for source in self.files:
            posix.set_blocking(source, False)

    def take(self, source: int) -> bool:
        """Move one chunk; False when there is none."""
        try:
            chunk = posix.read(source, CHUNK)
        except BlockingIOError:
            return False
        fits = chunk[: self._left]
        self._left -= len(fits)
        self.over = self.over or len(fits) < len(chunk)
        try:
            while fits and not self.lost:
                fits = fits[posix.write(self.files[source], fits) :]
            posix.utime(self._heartbeat)
        except OSError as error:
            self.lost = f"output was lost: {error.strerror}"
        return bool(chunk)

    def last_words(self) -> str:
        """The end of what was said so far, on one line."""
        for source in self.files:
            while self.take(source):
                pass
        heard = max(self.files.values())
        size = posix.fstat(heard).st_size
        return posix.pread(heard, 400, max(0, size - 400)).decode(errors="replace").strip().replace("\n", "; ")

    def settle(self) -> None:
        """Take what is still in the pipes and make it last."""
        for source, file in self.files.items():
            # Over the cap nothing more is kept, and a writer that is none of ours might never stop.
            while not self.over and self.take(source):
                pass
            try:
                posix.fdatasync(file)
            except OSError as error:
                self.lost = f"output was lost: {error.strerror}"


def threads(pid: int) -> list[str]:
    try:
        return posix.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def descendants() -> list[int]:
    """Every process below us, also one that left its session or lost its parent: we are the subreaper."""
    found, todo = [], [posix.getpid()]
    while todo:
        found.append(pid := todo.pop())
        for thread in threads(pid):
            try:
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as children:
                    todo.extend(int(child) for child in children.read().split())
            except OSError:
                continue  # it ended while we looked; its children have moved up to where we see them next time
    return found[1:]


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            posix.kill(pid, number)
        except OSError:
            continue  # it ended meanwhile, or is another user's


def in_a_box(pid: int) -> bool:
    """It has a number of its own in there, and is not the one whose end ends all the others."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            numbers = next((line.split()[1:] for line in status if line.startswith(b"NSpid:")), [])
    except OSError:
        return False
    return len(numbers) > 1 and numbers[-1] != b"1"


def execute(argv: tuple[str, ...], environment: dict[str, str]) -> None:
    """Become the command, looked up in the PATH it will see itself; returns never."""
    path = environment.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    places = [argv[0]] if "/" in argv[0] else [f"{place or '.'}/{argv[0]}" for place in path.split(":")]
    problem = OSError(2, posix.strerror(2), argv[0])
    for place in places:
        try:
            posix.execve(place, argv, environment)
        except OSError as error:
            if error.errno not in MISSING:
                problem = OSError(error.errno, error.strerror, place)
    raise problem


class Supervisor:
    """One job, from its order to its exit.json."""

    def __init__(self) -> None:
        with open(0, "rb", closefd=False) as order:
            self._order = marshal.load(order)
        self._exit = written("exit.json.tmp")
        # Kept from the start: a disk that fills up later cannot stop us from telling how the job ended.
        posix.posix_fallocate(self._exit, 0, ROOM_FOR_EXIT)
        self._keeper = keep.Keeper(self._order) if self._order["box"] else None
        names = ("output", "errors") if self._order["streams"] == "apart" else ("output",)
        self._output = Output(names, self._order["limits"]["output_bytes"])
        self._pid = 0
        self._status: int | None = None
        self._clock = Stopwatch()
        self._heard = 0.0
        self._poll = select.poll()
        self._watched = self._listen()

    def _listen(self) -> bool:
        native("prctl", SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        ended, wake = posix.pipe2(posix.O_NONBLOCK | posix.O_CLOEXEC)
        _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        changed = native("inotify_init1", posix.O_NONBLOCK | posix.O_CLOEXEC)
        alarm = self._keeper.alarm if self._keeper else -1
        for source in (ended, *self._output.files, *(fd for fd in (changed, alarm) if fd >= 0)):
            self._poll.register(source, select.POLLIN)
        return changed >= 0 and native("inotify_add_watch", changed, b".", DIRECTORY_CHANGED) >= 0

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
        self._sweep()
        self._output.settle()
        if ending == "exited" and self._output.over:
            ending = "output"
        if self._keeper:
            ending = self._keeper.ending(ending)
            self._keeper.close()
        self._record(ending, message or self._output.lost, begun_at=begun_at, seconds=seconds)

    def _now(self) -> float:
        frozen = self._order["frozen_at"]
        return time.time() if frozen is None else float(frozen)

    def _start(self) -> tuple[str, str]:
        """Fork the command; the ending and its message when it cannot be started."""
        heard, report = posix.pipe()
        parent, boxed = posix.getpid(), self._keeper is not None
        channel = self._keeper.open_way_out() if self._keeper else -1
        self._pid = posix.fork()
        if self._pid == 0:
            try:
                if boxed:
                    report = posix.dup2(report, launch.STARTED) if report != launch.STARTED else report
                self._become(parent, channel)
            except (OSError, ValueError, IndexError, ImportError) as error:
                missing = isinstance(error, OSError) and error.errno in MISSING and not boxed
                posix.write(report, f"{127 if missing else 126} {error}"[:500].encode(errors="replace"))
            finally:
                posix._exit(126)
        for end in (report, *self._output.ends, *((channel,) if channel >= 0 else ())):
            posix.close(end)
        # The report closes by itself when the command takes over; a box says so.
        ending = self._heard_of(heard)
        said = "" if ending else posix.read(heard, CHUNK).decode(errors="replace")
        posix.close(heard)
        if ending:
            return ending, "it had not begun yet"
        if said == ("." if boxed else ""):
            return "", ""
        posix.waitpid(self._pid, 0)
        exit, _, message = said.partition(" ")
        self._status = int(exit or 126) << 8
        if boxed:
            return "unstartable", f"the box cannot be built: {message or self._output.last_words()}"
        return "unstartable", f"the command cannot be started: {message}"

    def _heard_of(self, report: int) -> str:
        """Wait for the first word; why there is no more waiting when it does not come: a disk may hang for ever."""
        listening = select.poll()
        listening.register(report, select.POLLIN)
        while not listening.poll(int(UNWATCHED_S * 1000)):
            self._clock.tick()
            if there("cancel"):
                return "cancelled"
            if self._clock.seconds >= self._order["limits"]["wall_s"]:
                return "wall"
        return ""

    def _become(self, parent: int, channel: int) -> None:
        posix.setsid()
        native("prctl", SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        if posix.getppid() != parent:
            return
        for number in range(1, _signal.NSIG):
            if _signal.getsignal(number) == _signal.SIG_IGN:
                _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        posix.umask(0o022)
        ends, asked = self._output.ends, posix.open("stdin", posix.O_RDONLY)
        if self._keeper:
            # A box gets the bytes, not the file: through /proc it could open that again and write to our record.
            asked = launch.in_memory(posix.read(asked, posix.fstat(asked).st_size))
        for source, target in ((asked, 0), (ends[0], 1), (ends[-1], 2)):
            posix.dup2(source, target)
        if self._keeper:
            self._keeper.join()
            launch.enter(self._order, channel)
        posix.chdir(self._order["cwd"])
        execute(self._order["argv"], self._order["environment"])

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
        look = (self._keeper.due if self._keeper else None, None if self._watched else UNWATCHED_S)
        return min((seconds for seconds in (left, *look) if seconds is not None), default=None)

    def _turn(self, seconds: float | None) -> None:
        """Wait for something to happen, at most that long, and take it in."""
        ready = self._poll.poll(None if seconds is None else max(0, int(min(seconds, LONGEST_S) * 1000) + 1))
        self._clock.tick()
        for source, _ in ready:
            if source not in self._output.files:
                posix.read(source, CHUNK)  # only a wake-up: what happened is looked up afresh
            elif self._output.take(source):
                self._heard = self._clock.seconds
            else:
                self._poll.unregister(source)
        self._reap()

    def _reap(self) -> None:
        try:
            while (found := posix.waitpid(-1, posix.WNOHANG)) != (0, 0):
                self._note(*found)
        except ChildProcessError:
            return

    def _note(self, pid: int, status: int) -> None:
        if pid == self._pid:
            self._status = status

    def _terminate(self) -> None:
        """Ask everyone to end and give the command its grace; what it leaves behind gets none."""
        everyone = descendants()
        # Outside of a box of namespaces there are only those that keep it: their end would leave it no grace.
        apart = self._keeper and self._order["box"]["walls"] == "namespaces"
        signal_all([pid for pid in everyone if in_a_box(pid)] if apart else everyone, _signal.SIGTERM)
        over = time.monotonic() + self._order["limits"]["grace_s"]
        while self._status is None and (left := over - time.monotonic()) > 0:
            self._turn(left)

    def _sweep(self) -> None:
        """Kill until nothing is left; each death may hand us orphans that were forked meanwhile."""
        try:
            while True:
                signal_all(descendants(), _signal.SIGKILL)
                self._note(*posix.waitpid(-1, 0))
                self._reap()
        except ChildProcessError:
            return

    def _record(self, ending: str, message: str, *, begun_at: float, seconds: float) -> None:
        status = self._status if self._status is not None else _signal.SIGTERM
        code = posix.waitstatus_to_exitcode(status)
        text = (
            f'{{"ending": "{ending}", "exit": {code if code >= 0 else 128 - code}, "started_at": {begun_at!r}, '
            f'"ended_at": {self._now()!r}, "seconds": {seconds!r}, '
            f'"message": {_json.encode_basestring_ascii(message)}}}\n'
        ).encode()
        posix.pwrite(self._exit, text, 0)
        posix.ftruncate(self._exit, len(text))
        posix.fsync(self._exit)
        posix.rename("exit.json.tmp", "exit.json")


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
