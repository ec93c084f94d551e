"""How a job begins: a child of the supervisor becomes its command, in its box if it has one, or says why it cannot.

Part of the detached supervisor: it imports only what is built in, and what lies beside it.
"""

import _signal  # type: ignore[import-not-found]
import posix

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs import launch
    from resolvent.adapters.jobs.keep import Keeper
    from resolvent.adapters.jobs.native import native
    from resolvent.adapters.jobs.output import leave
    from resolvent.adapters.jobs.processes import boot, born
else:
    import launch
    from keep import Keeper
    from native import native
    from output import leave
    from processes import boot, born

MISSING = (2, 20)  # ENOENT, ENOTDIR
SET_PDEATHSIG = 1
LONGEST_REPORT = 1 << 16


class Beginning:
    """A forked child on its way to become the command; `report` becomes readable when it has, or has failed."""

    def __init__(self, order: dict, ends: list[int], keeper: Keeper | None) -> None:  # type: ignore[type-arg]
        self._order, self._ends, self._keeper = order, ends, keeper
        self.report, report = posix.pipe()
        parent = posix.getpid()
        channel = keeper.open_way_out() if keeper else -1
        self.pid = posix.fork()
        if self.pid == 0:
            self._try(parent, report, channel)
        for end in (report, *ends, *((channel,) if channel >= 0 else ())):
            posix.close(end)

    def problem(self) -> tuple[int, str] | None:
        """What it reports: nothing when the command took over, else an exit and why."""
        said = posix.read(self.report, LONGEST_REPORT).decode(errors="replace")
        # The report closes by itself when the command takes over; a box says so.
        if said == ("." if self._keeper else ""):
            return None
        exit, _, message = said.partition(" ")
        return int(exit or 126), message

    def _try(self, parent: int, report: int, channel: int) -> None:
        try:
            if self._keeper:
                report = posix.dup2(report, launch.STARTED) if report != launch.STARTED else report
            self._become(parent, channel)
        except (OSError, ValueError, IndexError, ImportError) as error:
            missing = isinstance(error, OSError) and error.errno in MISSING and not self._keeper
            posix.write(report, f"{127 if missing else 126} {error}"[:500].encode(errors="replace"))
        finally:
            posix._exit(126)

    def _become(self, parent: int, channel: int) -> None:
        posix.setsid()
        native("prctl", SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        if posix.getppid() != parent:
            return
        if not self._keeper or self._order["box"]["walls"] != "namespaces":
            # What is left of it when the supervisor is killed can only be found by this.
            leave("session", f"{posix.getpid()} {born(posix.getpid())} {boot()}")
        for number in range(1, _signal.NSIG):
            if _signal.getsignal(number) == _signal.SIG_IGN:
                _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        posix.umask(0o022)
        asked = posix.open("stdin", posix.O_RDONLY)
        if self._keeper:
            # A box gets the bytes, not the file: through /proc it could open that again and write to our record.
            asked = launch.in_memory(posix.read(asked, posix.fstat(asked).st_size))
        for source, target in ((asked, 0), (self._ends[0], 1), (self._ends[-1], 2)):
            posix.dup2(source, target)
        if self._keeper:
            self._keeper.join()
            launch.enter(self._order, channel, counted=self._keeper.counted)
        launch.keep_no_core()
        posix.chdir(self._order["cwd"])
        execute(self._order["argv"], self._order["environment"])


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
