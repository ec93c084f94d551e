"""What is kept outside of a box while its job runs: its bounds, and its way to the network.

Loaded by the supervisor for a job in a box, and like it made of what the interpreter has built in.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs import cgroup, launch, watch
    from resolvent.adapters.jobs.native import native
else:
    import cgroup
    import launch
    import watch
    from native import native

SET_PDEATHSIG, SET_DUMPABLE, KILL = 1, 4, 9
LOCK_EX, LOCK_NB = 2, 4


class Keeper:
    """The bounds of one box: a cgroup where one can be had, a watchdog for whatever it does not bind."""

    def __init__(self, order: dict) -> None:  # type: ignore[type-arg]
        limits, box = order["limits"], order["box"]
        self._box, self._secrets = box, order["secrets"]
        self._membership: cgroup.Membership | None = None
        bounds: frozenset[str] = frozenset()
        if limits["memory_bytes"] or limits["cpus"]:
            self._membership = cgroup.enter(
                order["id"], memory=limits["memory_bytes"], processes=limits["processes"], cpus=limits["cpus"]
            )
            bounds = self._membership.bounds if self._membership else bounds
        # Without a bound of its own a box may still not take the whole machine.
        most = posix.sysconf("SC_PAGE_SIZE") * posix.sysconf("SC_PHYS_PAGES") * 3 // 4
        memory = None if "memory" in bounds else limits["memory_bytes"] or most
        self._watch: watch.Watch | None = None
        self._held: list[int] = []
        if memory or limits["disk_bytes"]:
            files = box["files"]
            written = f"{files['layers']}/{files['upper']}/up" if files["upper"] else files["tree"]
            self._watch = watch.Watch(
                [written, box["private"]], disk_bytes=limits["disk_bytes"], memory_bytes=memory, pid=posix.getpid()
            )

    @property
    def counted(self) -> bool:
        """The kernel counts the memory of the box."""
        return self._membership is not None and "memory" in self._membership.bounds

    def hold(self) -> str:
        """Be the only job that writes to these files, or say why not: the kernel would let two of them in silence."""
        files = self._box["files"]
        layer = f"{files['layers']}/{files['upper']}" if files["upper"] else ""
        # A place that only jobs lock, and that no box can.
        own = f"{layer}/up" if layer else files["tree"].rpartition("/")[0]
        try:
            self._lock(own, LOCK_EX | LOCK_NB)
            if layer:
                # This one is looked at too, whether somebody has it, for a moment each time.
                self._lock(layer, LOCK_EX)
        except BlockingIOError:
            return "another job runs in this branch"
        except OSError as error:
            # It may be made anew, or gone with its branch, for who asks to be let in again.
            return f"its {'layer' if layer else 'tree'} cannot be held: {error.strerror}"
        # Looked up with the lock: who seals it from now on sees that we are here, and leaves it as it is.
        sealed = layer and not posix.access(f"{layer}/wk", posix.F_OK)
        return "its branch was sealed after the job was let in" if sealed else ""

    def _lock(self, place: str, how: int) -> None:
        self._held.append(posix.open(place, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC))
        native("flock", self._held[-1], how)

    @property
    def alarm(self) -> int:
        """A descriptor that becomes readable when memory ran out; -1 when there is none."""
        return self._membership.alarm if self._membership else -1

    def join(self) -> None:
        """Bind the calling process and all that it becomes."""
        if self._membership:
            self._membership.join()

    @property
    def due(self) -> float | None:
        """Seconds until somebody should ask for the reason again."""
        return self._watch.due if self._watch else None

    def reason(self) -> str:
        """`memory` or `disk` when the box took more than it may, or nothing."""
        if self._membership and self._membership.oom_killed():
            return "memory"
        return self._watch.look() if self._watch else ""

    def ending(self, ending: str) -> str:
        """How the job really ended: what the kernel killed for want of memory looks as if it had ended by itself."""
        return "memory" if ending == "exited" and self._membership and self._membership.oom_killed() else ending

    def close(self) -> None:
        """Let go of the files and remove the cgroup, now that nobody is in them any more."""
        for place in self._held:
            posix.close(place)
        if self._membership:
            self._membership.remove()

    def open_way_out(self) -> int:
        """Start the proxy; the end of a channel on which the box hands it the sockets it listens on. -1: no network."""
        if not (self._box["network"] or self._box["gateways"]) or self._box["walls"] == "landlock":
            return -1
        import _socket

        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        parent = posix.getpid()
        if (proxy := posix.fork()) == 0:
            try:
                self._serve(ours.fileno(), parent)
            finally:
                posix._exit(1)
        ours.close()
        if self._watch:
            self._watch.beside = proxy
        return int(theirs.detach())

    def _serve(self, channel: int, parent: int) -> None:
        import _signal  # type: ignore[import-not-found]

        # Loaded and opened as who we are: as the box's user we could not read the programs.
        proxy = __import__("proxy")
        ways = proxy.ways(self._box)
        # What was refused is for a person to read beside the job's output.
        refused = posix.open("network", posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o600)
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        if self._box["user"] is not None and posix.geteuid() == 0:
            launch.drop(self._box["user"])
        # It holds the keys of the gateways: nobody looks into its memory, not even who runs as the same user.
        native("prctl", SET_DUMPABLE, 0, 0, 0, 0)
        native("prctl", SET_PDEATHSIG, KILL, 0, 0, 0)
        if posix.getppid() != parent:
            return
        proxy.serve(channel, ways, log=refused, secrets=self._secrets)
