"""A cgroup of its own for each box, where one may be made: the kernel then counts memory, processes and time for us.

It is only ever made below the cgroup we are in, so no limit that was put on us is left. Version 2 wants its
controllers handed down to us (delegation), version 1 a directory we may write. Part of the detached supervisor: it
imports only what is built in, and nothing of ours.
"""

import posix
import select
import time

PREFIX = "resolvent-"
# Version 2 allows no process beside child groups: whoever is in no box waits in this leaf.
OUTSIDE = "resolvent-outside"
CONTROLLERS = {"memory": "memory", "processes": "pids", "cpus": "cpu"}
PERIOD_US = 100_000
LONGEST_NAME = 150
# How long the kernel may take to forget a process that ended; what is still there then is for others to remove.
EMPTYING_S = 0.25
# What version 1 uses when memory has run out is never further below the limit than this.
SHORT_PAGES = 16


def enter(name: str, *, memory: int | None, processes: int | None, cpus: float | None) -> "Membership | None":
    """A new cgroup with these limits and nobody in it; None where no limit at all could be set."""
    if not name or "/" in name or "\0" in name:
        raise ValueError(f"not the name of a cgroup: {name!r}")
    limits = {"memory": memory, "processes": processes, "cpus": cpus}
    wanted = {bound: limit for bound, limit in limits.items() if limit is not None}
    own = places(_read("/proc/self/cgroup"), _read("/proc/self/mountinfo"))
    base, handed_down = handed(own.get("", ""), {CONTROLLERS[bound] for bound in wanted})
    label = f"{PREFIX}{name[:LONGEST_NAME]}.{posix.getpid()}"
    bound_in: dict[str, str] = {}
    for bound, limit in wanted.items():
        controller = CONTROLLERS[bound]
        modern = controller in handed_down
        parent = base if modern else own.get(controller, "")
        group = f"{parent}/{label}"
        if not parent or not (group in bound_in.values() or _make_anew(group)):
            continue
        if _bind(group, _settings(bound, limit, modern)):
            bound_in[bound] = group
        elif group not in bound_in.values():
            _remove(group)
    return Membership(bound_in, memory=memory or 0) if bound_in else None


class Membership:
    """The cgroup of one box; `bounds` says which of memory, processes and cpus it really bounds."""

    def __init__(self, bound_in: dict[str, str], *, memory: int = 0) -> None:
        self.bounds = frozenset(bound_in)
        self._groups = tuple(dict.fromkeys(bound_in.values()))
        self._memory, self._limit = bound_in.get("memory", ""), memory
        # Version 2 kills the whole group at once. Version 1 kills one process and tells whoever listens here; a second
        # bell is for ourselves, because whoever waits for the first empties it.
        self.alarm = _bell(self._memory) if self._memory else -1
        self._bell = _bell(self._memory) if self.alarm >= 0 else -1
        self._listening = False

    def join(self, pid: int = 0) -> None:
        """Put a process in, 0 for the caller; what it forks from then on is in as well."""
        for group in self._groups:
            _write(f"{group}/cgroup.procs", str(pid))

    def oom_killed(self) -> bool:
        """The kernel killed something in here because memory ran out; the alarm rings again when it may have."""
        if self._rang() and not self._listening:
            self._listening = True
            # It rings just before the kill, and also when memory ran out further up and another group has to pay.
            # Whoever is killed in here leaves less in use than there was: that rings too. Only from now on, for files
            # that come and go in a full group would ring all the time.
            below = self._limit - SHORT_PAGES * posix.sysconf("SC_PAGE_SIZE")
            _register(self.alarm, self._memory, "memory.usage_in_bytes", str(max(0, below)))
        return _killed(self._memory)

    def _rang(self) -> bool:
        try:
            return self._bell >= 0 and posix.eventfd_read(self._bell) > 0
        except BlockingIOError:
            return False

    def remove(self) -> None:
        """Remove the group once nobody is in it, and those of supervisors that died; what cannot go now stays."""
        for event in (self.alarm, self._bell):
            if event >= 0:
                posix.close(event)
        self.alarm = self._bell = -1
        over = time.monotonic() + EMPTYING_S
        for group in self._groups:
            _await_empty(group, over)
            _remove(group)
        for parent in {group.rpartition("/")[0] for group in self._groups}:
            _sweep(parent)


def places(membership: str, mounts: str) -> dict[str, str]:
    """Our own directory by controller, "" for version 2, from what /proc/self/cgroup and /proc/self/mountinfo say."""
    mounted: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        root, point = (_unescaped(word) for word in before.split(" ")[3:5])
        if kind == "cgroup2":
            mounted[""] = (root, point)
        elif kind == "cgroup":
            mounted |= dict.fromkeys(options.rpartition(" ")[2].split(","), (root, point))
    found = {}
    for line in membership.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            root, point = mounted.get(name, ("", ""))
            below = path.removeprefix(root.rstrip("/"))
            # A mount may show only a part of the tree, and we may be in another part.
            if point and path.startswith(root.rstrip("/")) and (not below or below.startswith("/")):
                found[name] = (point + below).rstrip("/")
    return found


def handed(own: str, controllers: set[str]) -> tuple[str, set[str]]:
    """Where child groups of version 2 can be made, and with which of the controllers; hands them down if it may."""
    base = own.removesuffix(f"/{OUTSIDE}")
    wanted = controllers & set(_read(f"{base}/cgroup.controllers").split()) if own else set()
    active = wanted & set(_read(f"{base}/cgroup.subtree_control").split())
    if wanted - active and _delegated(base):
        if posix.access(f"{base}/cgroup.type", posix.F_OK):  # only the root of all may have both
            _evacuate(base)
        for controller in wanted - active:
            if _written(f"{base}/cgroup.subtree_control", f"+{controller}"):
                active.add(controller)
    return base, active


def _delegated(base: str) -> bool:
    """Whether what is in this group is ours to arrange: root may everywhere, and should not behind systemd's back."""
    if posix.geteuid() != 0:
        return posix.access(f"{base}/cgroup.subtree_control", posix.W_OK)
    if not posix.access(f"{base}/cgroup.type", posix.F_OK) or "0::/" in _read("/proc/self/cgroup").splitlines():
        return True
    for mark in ("trusted.delegate", "user.delegate"):
        try:
            if posix.getxattr(base, mark) == b"1":
                return True
        except OSError:
            continue
    return False


def _evacuate(base: str) -> None:
    """Move everyone from the group itself into the leaf; a fork may need another round."""
    leaf = f"{base}/{OUTSIDE}"
    _make(leaf)
    for _ in range(3):
        for pid in _read(f"{base}/cgroup.procs").split():
            _written(f"{leaf}/cgroup.procs", pid)


def _settings(bound: str, limit: float, modern: bool) -> list[tuple[str, str]]:
    """Files and what is written to them; the first must succeed, the rest is for kernels that have it."""
    quota = max(1000, int(limit * PERIOD_US))
    if bound == "processes":
        return [("pids.max", str(int(limit)))]
    if bound == "cpus":
        return [("cpu.max", f"{quota} {PERIOD_US}")] if modern else [("cpu.cfs_quota_us", str(quota))]
    if modern:
        return [("memory.max", str(int(limit))), ("memory.swap.max", "0"), ("memory.oom.group", "1")]
    # In this order: memory and swap together may not be less than memory.
    return [("memory.limit_in_bytes", str(int(limit))), ("memory.memsw.limit_in_bytes", str(int(limit)))]


def _bind(group: str, settings: list[tuple[str, str]]) -> bool:
    done = [_written(f"{group}/{file}", text) for file, text in settings]
    return done[0]


def _killed(group: str) -> bool:
    counted = _read(f"{group}/memory.events") or _read(f"{group}/memory.oom_control")
    return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in counted.splitlines())


def _bell(group: str) -> int:
    """A descriptor that becomes readable when memory runs out; -1 where there is none."""
    try:
        event = posix.eventfd(0, posix.EFD_CLOEXEC | posix.EFD_NONBLOCK)
    except OSError:
        return -1
    if _register(event, group, "memory.oom_control"):
        return event
    posix.close(event)
    return -1


def _register(event: int, group: str, file: str, words: str = "") -> bool:
    try:
        control = posix.open(f"{group}/{file}", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return False
    registered = _written(f"{group}/cgroup.event_control", f"{event} {control} {words}".rstrip())
    posix.close(control)
    return registered


def _await_empty(group: str, over: float) -> None:
    """A process that was just reaped may still be counted for a moment: version 2 says when it no longer is."""
    try:
        events = posix.open(f"{group}/cgroup.events", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return
    try:
        told = select.poll()
        told.register(events, select.POLLPRI)
        while b"populated 1" in posix.pread(events, 400, 0) and (left := over - time.monotonic()) > 0:
            told.poll(int(left * 1000) + 1)
    finally:
        posix.close(events)


def _sweep(parent: str) -> None:
    """Remove what supervisors left that were killed; a group somebody is in cannot be removed."""
    for name in posix.listdir(parent):
        pid = name.rpartition(".")[2]
        if name.startswith(PREFIX) and pid.isdecimal() and not posix.access(f"/proc/{pid}", posix.F_OK):
            _remove(f"{parent}/{name}")


def _make_anew(group: str) -> bool:
    """One that an earlier process with our number left would have counted already."""
    return _remove(group) and _make(group)


def _make(group: str) -> bool:
    try:
        posix.mkdir(group, 0o755)
    except OSError:
        return False
    return True


def _remove(group: str) -> bool:
    try:
        posix.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _unescaped(word: str) -> str:
    """mountinfo writes blanks and backslashes as three octal digits."""
    parts = word.split("\\")
    return parts[0] + "".join(chr(int(part[:3], 8)) + part[3:] for part in parts[1:])


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read()
    except OSError:
        return ""


def _write(file: str, text: str) -> None:
    opened = posix.open(file, posix.O_WRONLY | posix.O_CLOEXEC)
    try:
        posix.write(opened, text.encode())
    finally:
        posix.close(opened)


def _written(file: str, text: str) -> bool:
    try:
        _write(file, text)
    except OSError:
        return False
    return True
