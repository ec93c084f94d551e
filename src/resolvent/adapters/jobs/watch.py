"""A watchdog for what neither cgroup nor quota bounds: the disk and the memory a box takes.

A look is a cheap guess: how far the free space of the filesystem fell, how much the box's processes hold. When a guess
comes near the limit, and now and then anyway, files are counted, a slice at a time so that a large tree takes no core
for itself. What a box takes between two looks is its overshoot: some MiB for one large file or a memory hog, hundreds
for many small files in a large tree. Part of the detached supervisor: it imports only what is built in, and what lies
beside it.
"""

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.counting import Count, views
    from resolvent.adapters.jobs.processes import descendants
else:
    from counting import Count, views
    from processes import descendants

MOST_FILES = 2_000_000
# What a box could take in one second: the next look comes before it can have got from here to its limit.
DISK_RATE, MEMORY_RATE = 2 << 30, 4 << 30
QUICKEST_S, SLOWEST_S = 0.02, 1.0
# The part of one core that looking may take, and how long one slice of a count lasts: in peace, for exact sums of
# memory, and when something points at the limit.
CALM, EXACT, SUSPICIOUS = 0.02, 0.1, 0.5
SLICE_S = {CALM: 0.01, SUSPICIOUS: 0.03}
# The kernel stamps files with the time of its last tick.
TICK_S = 0.02
OF_STATUS, OF_SHARES = (b"RssAnon", b"VmSwap", b"RssShmem"), (b"Pss_Anon", b"SwapPss", b"Pss_Shmem")


class Watch:
    """What is written below `files` and what the descendants of `pid` hold, against their limits."""

    def __init__(self, files: list[str], *, disk_bytes: int | None, memory_bytes: int | None, pid: int) -> None:
        self._files = files if disk_bytes else []
        self._disk = Disk(files, disk_bytes) if disk_bytes else None
        self._memory = Memory(memory_bytes) if memory_bytes else None
        self._pid = pid
        # One that is no part of the box and lets nobody look at it: the way to the network.
        self.beside = 0
        self._begun, self._since = time.monotonic() - TICK_S, time.time()
        self._count: Count | None = None
        self._last: Count | None = None
        self._counted_at = time.monotonic()
        self._spent = 0.0
        self._next = self._counted_at + QUICKEST_S

    @property
    def due(self) -> float | None:
        """Seconds until the next look; None when there is nothing to watch."""
        return max(0.0, self._next - time.monotonic()) if self._disk or self._memory else None

    def look(self) -> str:
        """`disk` or `memory` when the box has more than it may, or nothing; before it is due it does not look."""
        if self.due != 0:
            return ""
        begun = time.process_time()
        processes = [pid for pid in descendants(self._pid) if pid != self.beside]
        bounds = [bound for bound in (self._disk, self._memory) if bound]
        for bound in bounds:
            bound.guess(processes)
        share = SUSPICIOUS if any(bound.suspicious for bound in bounds) else CALM
        if self._memory and self._memory.exceeded(processes):
            return "memory"
        if self._disk and self._last and self._disk.suspicious and self._disk.exceeded(self._last.again()):
            return "disk"
        looked = time.process_time() - begun
        verdict = self._go_on_counting(processes, share)
        wait = min(bound.safe_s for bound in bounds)
        if self._count:
            wait = min(wait, self._spent / share)
        self._next = time.monotonic() + max(min(wait, SLOWEST_S), QUICKEST_S, looked / share)
        return verdict

    def _go_on_counting(self, processes: list[int], share: float) -> str:
        """Begin a count when it is time for one, go on with it for a slice, and judge what it has found so far."""
        between = 0.0 if self._count else QUICKEST_S if share == SUSPICIOUS else SLOWEST_S
        if time.monotonic() - self._counted_at < max(between, self._spent / share):
            return ""
        if not self._count:
            # Files are stamped by the wall clock, which may be set back: what we began at is what it calls it now.
            self._since = min(self._since, self._begun + time.time() - time.monotonic())
            self._count = Count(self._files, processes, since=self._since)
            for bound in (self._disk, self._memory):
                if bound:
                    bound.begin()
        count = self._count
        self._spent = count.go_on(SLICE_S[share])
        self._counted_at = time.monotonic()
        if self._memory:
            self._memory.settle(count)
        if self._disk and self._disk.exceeded(count.again()):
            return "disk"
        if count.done:
            self._last, self._count = count, None
            if self._disk:
                self._disk.settle(count)
        return ""


class Disk:
    """Guesses from the free space of the filesystem, which costs nothing; a count says whose it was."""

    def __init__(self, files: list[str], limit: int) -> None:
        self._limit = limit
        by_device = {posix.stat(path).st_dev: path for path in files if posix.access(path, posix.F_OK)}
        self._places = list(by_device.values())
        self._used = 0
        # Free bytes: when the last full count began, when the running one did, and now.
        self._then = self._begun = self._now = self._free()
        # What was free and used together when the job hid nothing.
        self._in_sight = self._now
        self.suspicious = False
        self.safe_s = 0.0

    def _free(self) -> int:
        known = [posix.statvfs(place) for place in self._places]
        return sum(said.f_bfree * said.f_frsize for said in known)

    def guess(self, processes: list[int]) -> None:
        """Suspicious when so much is gone since the last count that half of what was left may be."""
        self._now = self._free()
        fell = max(0, self._then - self._now)
        half = max(0, self._limit - self._used) // 2
        self.safe_s = max(0, half - fell) / DISK_RATE
        self.suspicious = fell >= half

    def begin(self) -> None:
        """A count begins: what goes from here on may be in no count yet."""
        self._begun = self._now

    def settle(self, count: Count) -> None:
        """Take over what was counted."""
        self._used, self._then = count.written, self._begun
        if not (count.dark or count.veiled):
            self._in_sight = count.written + self._begun

    def exceeded(self, count: Count) -> bool:
        """Whether it is too much already, or a box that hides its files took too much from the filesystem."""
        if count.written > self._limit or count.entries > MOST_FILES:
            return True
        return count.done and (count.dark or count.veiled) and self._in_sight - self._now > self._limit


class Memory:
    """Adds up what processes hold of their own; asks for the exact shares only when that is too much."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unmapped = 0
        # Shared memory of the whole machine: when the last count began, when the running one did, and now.
        self._then = self._begun = self._now = shared_on_machine()
        # What of it was not the job's when the job hid no descriptor.
        self._others = self._now
        # The last guess, and the last exact sum with the guess of its time.
        self._guessed = self._guessed_then = self._exact = 0
        self._exact_until = 0.0
        self.suspicious = False
        self.safe_s = 0.0

    def guess(self, processes: list[int]) -> None:
        """Suspicious when it may be too much: a fork's pages count for both, shared memory of anyone for the box."""
        private = shared = 0
        for pid in processes:
            anonymous, swapped, common = held(pid, "status", OF_STATUS)
            private += anonymous + swapped
            shared += common
        self._now = shared_on_machine()
        self._guessed = private + max(shared, self._unmapped + max(0, self._now - self._then))
        # The exact sum is dear. It holds until what came since could fill the rest, or until it had its time.
        self._guessed_then, self._exact = min(self._guessed_then, self._guessed), min(self._exact, self._guessed)
        likely = self._exact + self._guessed - self._guessed_then
        over = self._guessed > self._limit and time.monotonic() >= self._exact_until
        self.suspicious = over or likely > self._limit
        self.safe_s = max(0, self._limit - likely) / MEMORY_RATE

    def begin(self) -> None:
        """A count begins: what comes from here on may be in no count yet."""
        self._begun = self._now

    def settle(self, count: Count) -> None:
        """Take over what was found of memory that needs no process to map it."""
        if not count.saw_processes:
            return
        self._unmapped, self._then = count.unmapped, self._begun
        if count.veiled:
            # Whatever the machine has more of now may be in what nobody sees.
            self._unmapped = max(self._unmapped, self._begun - self._others)
        else:
            self._others = self._begun - count.unmapped

    def exceeded(self, processes: list[int]) -> bool:
        """Whether it is too much, with shared pages divided among those who share them."""
        if not self.suspicious:
            return False
        begun = time.process_time()
        private = shared = 0
        for pid in processes:
            anonymous, swapped, common = held(pid, "smaps_rollup", OF_SHARES)
            if not anonymous:  # it does not let itself be looked at
                anonymous, swapped, common = held(pid, "status", OF_STATUS)
            private += anonymous + swapped
            shared += common
        self._exact, self._guessed_then = private + max(shared, self._unmapped), self._guessed
        self._exact_until = time.monotonic() + (time.process_time() - begun) / EXACT
        return self._exact > self._limit


def held(pid: int, file: str, names: tuple[bytes, ...]) -> list[int]:
    """The named sizes of a process, by one of its other threads when the first has ended."""
    sums = (sizes(f"{place}/{file}", names) for place in views(pid))
    return next(filter(any, sums), [0] * len(names))


def sizes(file: str, names: tuple[bytes, ...]) -> list[int]:
    """The named `Name: n kB` lines of a file of /proc in bytes, 0 for one that is not there."""
    found = dict.fromkeys(names, 0)
    try:
        with open(file, "rb") as lines:
            for line in lines:
                name, _, said = line.partition(b":")
                if name in found:
                    found[name] = int(said.split()[0]) * 1024
    except OSError:
        return [0] * len(names)
    return list(found.values())


def shared_on_machine() -> int:
    """Bytes of shared memory and memory filesystems of everyone."""
    return sizes("/proc/meminfo", (b"Shmem",))[0]
