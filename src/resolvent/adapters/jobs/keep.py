"""What is kept outside of a box while its job runs: its bounds, and its way to the network.

Loaded by the supervisor for a job in a box, and like it made of what the interpreter has built in.
"""

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs import cgroup, launch, watch
else:
    cgroup, launch, watch = __import__("cgroup"), __import__("launch"), __import__("watch")

SET_PDEATHSIG, KILL = 1, 9
LOCK_EX, LOCK_NB = 2, 4
LOOKED_AT_S = 0.2


class Keeper:
    """The bounds of one box: a cgroup where one can be had, a watchdog for whatever it does not bind."""

    def __init__(self, order: dict) -> None:  # type: ignore[type-arg]
        limits, box = order["limits"], order["box"]
        self._box = box
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
        self._layer = -1
        if memory or limits["disk_bytes"]:
            files = box["files"]
            written = f"{files['layers']}/{files['upper']}/up" if files["upper"] else files["tree"]
            self._watch = watch.Watch(
                [written, box["private"]], disk_bytes=limits["disk_bytes"], memory_bytes=memory, pid=posix.getpid()
            )

    def hold(self) -> str:
        """Be the only job that writes to this layer, or say why not: the kernel would let two of them in silence."""
        files = self._box["files"]
        if not files["upper"]:
            return ""
        layer = f"{files['layers']}/{files['upper']}"
        try:
            self._layer = posix.open(layer, posix.O_RDONLY | posix.O_CLOEXEC)
            if not self._locked():
                return "another job runs in this branch"
        except OSError as error:
            # It may be made anew, or gone with its branch, for who asks to be let in again.
            return f"its layer cannot be held: {error.strerror}"
        # Looked up with the lock: who seals it from now on sees that we are here, and leaves it as it is.
        return "" if posix.access(f"{layer}/wk", posix.F_OK) else "its branch was sealed after the job was let in"

    def _locked(self) -> bool:
        over = time.monotonic() + LOOKED_AT_S
        while True:
            try:
                launch.native("flock", self._layer, LOCK_EX | LOCK_NB)
                return True
            except BlockingIOError:
                # Who only looks whether somebody is in there has it for a moment too.
                if time.monotonic() >= over:
                    return False
                time.sleep(LOOKED_AT_S / 20)

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
        """Let go of the layer and remove the cgroup, now that nobody is in them any more."""
        if self._layer >= 0:
            posix.close(self._layer)
        if self._membership:
            self._membership.remove()

    def open_way_out(self) -> int:
        """Start the proxy; the end of a channel on which the box hands it the socket it listens on. -1: no network."""
        if not self._box["network"]:
            return -1
        import _socket

        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        parent = posix.getpid()
        if posix.fork() == 0:
            try:
                self._serve(ours.fileno(), parent)
            finally:
                posix._exit(1)
        ours.close()
        return int(theirs.detach())

    def _serve(self, channel: int, parent: int) -> None:
        import _signal  # type: ignore[import-not-found]

        # Loaded and opened as who we are: as the box's user we could not read the programs.
        proxy = __import__("proxy")
        # What was refused is for a person to read beside the job's output.
        refused = posix.open("network", posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o600)
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        if self._box["user"] is not None and posix.geteuid() == 0:
            launch.drop(self._box["user"])
        launch.native("prctl", SET_PDEATHSIG, KILL, 0, 0, 0)
        if posix.getppid() != parent:
            return
        proxy.serve(channel, allowed=self._box["network"], log=refused)
