"""A watchdog for what neither cgroup nor quota bounds: the disk and the memory a box takes.

A look is a cheap guess: how far the free space of the filesystem fell, how much the box's processes hold. When a guess
comes near the limit, and now and then anyway, files are counted, a slice at a time so that a large tree takes no core
for itself. What a box takes between two looks is its overshoot: some MiB for one large file or a memory hog, hundreds
for many small files in a large tree. Part of the detached supervisor: it imports only what is built in, and nothing of
ours.
"""

import _ctypes
import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FILES = 2_000_000
# What a box could take in one second: the next look comes before it can have got from here to its limit.
DISK_RATE, MEMORY_RATE = 2 << 30, 4 << 30
QUICKEST_S, SLOWEST_S = 0.02, 1.0
# The part of one core that looking may take, and how long one slice of a count lasts: in peace, for exact sums of
# memory, and when something points at the limit.
CALM, EXACT, SUSPICIOUS = 0.02, 0.1, 0.5
SLICE_S = {CALM: 0.01, SUSPICIOUS: 0.03}
# Files that grew this large are looked at again before the next count.
LARGE, MOST_LARGE = 1 << 20, 256
# The kernel stamps files with the time of its last tick.
TICK_S = 0.02
REGULAR, DIRECTORY, KIND = 0o100000, 0o040000, 0o170000
OPENAT2, WITHIN = 437, 0x01 | 0x02 | 0x04 | 0x08  # resolve: same mount, no magic links, no symlinks, beneath
OPEN_DIRECTORY = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
LONGEST_PATH = 4000


class Watch:
    """What is written below `files` and what the descendants of `pid` hold, against their limits."""

    def __init__(self, files: list[str], *, disk_bytes: int | None, memory_bytes: int | None, pid: int) -> None:
        self._files = files if disk_bytes else []
        self._disk = Disk(files, disk_bytes) if disk_bytes else None
        self._memory = Memory(memory_bytes) if memory_bytes else None
        self._pid = pid
        self._since = time.time() - TICK_S
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
        processes = descendants(self._pid)
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

    def settle(self, count: "Count") -> None:
        """Take over what was counted."""
        self._used, self._then = count.written, self._begun
        if not count.hidden:
            self._in_sight = count.written + self._begun

    def exceeded(self, count: "Count") -> bool:
        """Whether it is too much already, or a box that hides its files took too much from the filesystem."""
        if count.written > self._limit or count.entries > MOST_FILES:
            return True
        return count.done and count.hidden and self._in_sight - self._now > self._limit


class Memory:
    """Adds up what processes hold of their own; asks for the exact shares only when that is too much."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unmapped = 0
        # Shared memory of the whole machine: when the last count began, when the running one did, and now.
        self._then = self._begun = self._now = shared_on_machine()
        # The last guess, and the last exact sum with the guess of its time.
        self._guessed = self._guessed_then = self._exact = 0
        self._exact_until = 0.0
        self.suspicious = False
        self.safe_s = 0.0

    def guess(self, processes: list[int]) -> None:
        """Suspicious when it may be too much: a fork's pages count for both, shared memory of anyone for the box."""
        private = shared = 0
        for pid in processes:
            anonymous, swapped, common = sizes(f"/proc/{pid}/status", (b"RssAnon", b"VmSwap", b"RssShmem"))
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

    def settle(self, count: "Count") -> None:
        """Take over what was found of memory that needs no process to map it."""
        if count.saw_processes:
            self._unmapped, self._then = count.unmapped, self._begun

    def exceeded(self, processes: list[int]) -> bool:
        """Whether it is too much, with shared pages divided among those who share them."""
        if not self.suspicious:
            return False
        begun = time.process_time()
        private = shared = 0
        for pid in processes:
            names = (b"Pss_Anon", b"SwapPss", b"Pss_Shmem")
            anonymous, swapped, common = sizes(f"/proc/{pid}/smaps_rollup", names)
            if not anonymous:  # it does not let itself be looked at
                anonymous, swapped, common = sizes(f"/proc/{pid}/status", (b"RssAnon", b"VmSwap", b"RssShmem"))
            private += anonymous + swapped
            shared += common
        self._exact, self._guessed_then = private + max(shared, self._unmapped), self._guessed
        self._exact_until = time.monotonic() + (time.process_time() - begun) / EXACT
        return self._exact > self._limit


class Count:
    """One pass over the files that were written since then, and over what processes keep open without a name."""

    def __init__(self, files: list[str], processes: list[int], *, since: float) -> None:
        self.written = self.entries = self.unmapped = 0
        self.done = self.hidden = self.saw_processes = False
        self._since = since
        self._seen: set[tuple[int, int]] = set()
        self._large: dict[tuple[str, bytes, bytes], int] = {}
        self._steps = self._all(files, processes)

    def go_on(self, seconds: float) -> float:
        """Count for about that long, `done` at the end; the time of a core it took."""
        over, begun = time.monotonic() + seconds, time.process_time()
        self.done = True
        for _ in self._steps:
            if time.monotonic() >= over:
                self.done = False
                break
        return time.process_time() - begun

    def again(self) -> "Count":
        """Look again at the large files found so far: the one that fills a disk is mostly one of them."""
        for (place, path, name), counted in self._large.items():
            try:
                parent = open_beneath(place, path)
                try:
                    now = posix.stat(name, dir_fd=parent, follow_symlinks=False).st_blocks * 512
                finally:
                    posix.close(parent)
            except OSError:
                continue  # removed; the next count knows
            self.written += max(0, now - counted)
            self._large[place, path, name] = max(now, counted)
        return self

    def _all(self, files: list[str], processes: list[int]) -> "Iterator[None]":
        memory = shared_memory_device()
        for pid in processes:
            yield from self._open_without_name(pid, memory)
            yield from self._mapped_without_name(pid, memory)
        self.saw_processes = True
        for place in files:
            yield from self._tree(place)

    def _open_without_name(self, pid: int, memory: int) -> "Iterator[None]":
        """Removed files live on while they are open, and memory files never had a name."""
        try:
            names = posix.listdir(f"/proc/{pid}/fd")
        except OSError as error:
            self.hidden = self.hidden or isinstance(error, PermissionError)
            return
        for name in names:
            try:
                found = posix.stat(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue  # closed meanwhile
            if found.st_mode & KIND == REGULAR and found.st_nlink == 0 and self._first(0, found.st_ino):
                if found.st_dev == memory:
                    self.unmapped += found.st_blocks * 512
                else:
                    self.written += found.st_blocks * 512
            yield

    def _mapped_without_name(self, pid: int, memory: int) -> "Iterator[None]":
        device = f"{posix.major(memory):02x}:{posix.minor(memory):02x}".encode()
        try:
            with open(f"/proc/{pid}/maps", "rb") as lines:
                removed = [line.split(None, 5) for line in lines if line.endswith(b" (deleted)\n")]
        except OSError:
            return
        for span, _, _, on, inode, _ in removed:
            if on != device and self._first(0, int(inode)):
                begin, _, end = span.partition(b"-")
                self.written += int(end, 16) - int(begin, 16)
        yield

    def _tree(self, place: str) -> "Iterator[None]":
        """Every entry below, by descriptors and never through a link: the box moves things under our feet."""
        todo = [b"."]
        while todo:
            path = todo.pop()
            for found, name in self._directory(place, path):
                if found.st_mode & KIND == DIRECTORY:
                    todo.append(path + b"/" + name)
                if self._add(found) >= LARGE and len(self._large) < MOST_LARGE:
                    self._large[place, path, name] = found.st_blocks * 512
                yield

    def _directory(self, place: str, path: bytes) -> "Iterator[tuple[posix.stat_result, bytes]]":
        try:
            opened = open_beneath(place, path)
        except OSError as error:
            # Anything else: it was removed, or is no directory any more.
            self.hidden = self.hidden or isinstance(error, PermissionError)
            return
        try:
            with posix.scandir(opened) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    yield found, entry.name.encode("utf-8", "surrogateescape")
        finally:
            posix.close(opened)

    def _add(self, found: posix.stat_result) -> int:
        # The time of the last change, which no program can set: what was there before the job is not its doing.
        if found.st_ctime < self._since:
            return 0
        self.entries += 1
        if found.st_nlink > 1 and found.st_mode & KIND != DIRECTORY and not self._first(found.st_dev, found.st_ino):
            return 0
        self.written += found.st_blocks * 512
        return found.st_blocks * 512

    def _first(self, device: int, inode: int) -> bool:
        new = (device, inode) not in self._seen
        self._seen.add((device, inode))
        return new


def descendants(pid: int) -> list[int]:
    """Every process below it, itself not."""
    found, todo = [], [pid]
    while todo:
        found.append(parent := todo.pop())
        for thread in _threads(parent):
            try:
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as children:
                    todo.extend(int(child) for child in children.read().split())
            except OSError:
                continue  # it ended while we looked
    return found[1:]


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


def shared_memory_device() -> int:
    """The device that files without a filesystem are on: memfd, shared mappings."""
    probe = posix.memfd_create("probe")
    try:
        return posix.fstat(probe).st_dev
    finally:
        posix.close(probe)


def _threads(pid: int) -> list[str]:
    try:
        return posix.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


class _Native(_ctypes.CFuncPtr):
    _flags_ = 1 | 8  # the C calling convention, errno kept


def open_beneath(place: str, path: bytes) -> int:
    """Open a directory below a place without leaving it or following a link, however long its path is."""
    call = _Native(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))  # type: ignore[arg-type]
    how = OPEN_DIRECTORY.to_bytes(8, "little") + bytes(8) + WITHIN.to_bytes(8, "little")
    at = posix.open(place, OPEN_DIRECTORY)
    while path:
        cut = len(path) if len(path) <= LONGEST_PATH else path.rfind(b"/", 0, LONGEST_PATH)
        step, error = int(call(OPENAT2, at, path[:cut], how, len(how))), _ctypes.get_errno()
        posix.close(at)
        if step < 0:
            raise OSError(error, posix.strerror(error))
        at, path = step, path[cut:].lstrip(b"/")
    return at
