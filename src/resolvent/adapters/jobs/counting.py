"""One count of what a box has written: its files, and what its processes keep open or mapped without a name.

Part of the detached supervisor: it imports only what is built in, and what lies beside it.
"""

import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from collections.abc import Iterator

    from resolvent.adapters.jobs.native import native
    from resolvent.adapters.jobs.processes import threads
else:
    from native import native
    from processes import threads

# Files that grew this large are looked at again before the next count.
LARGE, MOST_LARGE = 1 << 20, 256
REGULAR, DIRECTORY, SOCKET, KIND = 0o100000, 0o040000, 0o140000, 0o170000
OPENAT2, WITHIN = 437, 0x01 | 0x02 | 0x04 | 0x08  # resolve: same mount, no magic links, no symlinks, beneath
KCMP, FILES = {"x86_64": 312}.get(posix.uname().machine, 272), 2
OPEN_DIRECTORY = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
LONGEST_PATH = 4000


class Step:
    """A directory on the way down, which knows only the one above it: whole paths of a deep tree would fill memory."""

    __slots__ = ("_above", "_name")

    def __init__(self, name: bytes, above: "Step | None" = None) -> None:
        self._name, self._above = name, above

    def path(self) -> bytes:
        names, step = [self._name], self._above
        while step:
            names.append(step._name)
            step = step._above
        return b"/".join(reversed(names))


class Count:
    """One pass over the files that were written since then, and over what processes keep open without a name."""

    def __init__(self, files: list[str], processes: list[int], *, since: float) -> None:
        self.written = self.entries = self.unmapped = 0
        self.done = self.saw_processes = False
        # There are directories, or descriptors, that nobody out here can look into.
        self.dark = self.veiled = False
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
            for table in _tables(pid):
                yield from self._open_without_name(table, memory)
            yield from self._mapped_without_name(pid, memory)
        self.saw_processes = True
        for place in files:
            yield from self._tree(place)

    def _open_without_name(self, table: str, memory: int) -> "Iterator[None]":
        """Removed files live on while they are open, and memory files never had a name."""
        try:
            names = posix.listdir(f"{table}/fd")
        except OSError as error:
            self.veiled = self.veiled or isinstance(error, PermissionError)
            return
        for name in names:
            try:
                found = posix.stat(f"{table}/fd/{name}")
            except OSError:
                continue  # closed meanwhile
            if found.st_mode & KIND == SOCKET:
                self.veiled = self.veiled or _in_flight(f"{table}/fdinfo/{name}")
            elif found.st_mode & KIND == REGULAR and found.st_nlink == 0 and self._first(0, found.st_ino):
                if found.st_dev == memory:
                    self.unmapped += found.st_blocks * 512
                else:
                    self.written += found.st_blocks * 512
            yield

    def _mapped_without_name(self, pid: int, memory: int) -> "Iterator[None]":
        device = f"{posix.major(memory):02x}:{posix.minor(memory):02x}".encode()
        lines = next(filter(None, (_lines(f"{place}/maps") for place in views(pid))), [])
        removed = [line.split(None, 5) for line in lines if line.endswith(b" (deleted)\n")]
        for span, _, _, on, inode, _ in removed:
            if on != device and self._first(0, int(inode)):
                begin, _, end = span.partition(b"-")
                self.written += int(end, 16) - int(begin, 16)
        yield

    def _tree(self, place: str) -> "Iterator[None]":
        """Every entry below, by descriptors and never through a link: the box moves things under our feet."""
        todo = [Step(b".")]
        while todo:
            here = todo.pop()
            path = here.path()
            for found, name in self._directory(place, path):
                if found.st_mode & KIND == DIRECTORY:
                    todo.append(Step(name, here))
                if self._add(found) >= LARGE and len(self._large) < MOST_LARGE:
                    self._large[place, path, name] = found.st_blocks * 512
                yield

    def _directory(self, place: str, path: bytes) -> "Iterator[tuple[posix.stat_result, bytes]]":
        try:
            opened = open_beneath(place, path)
        except OSError as error:
            # Anything else: it was removed, or is no directory any more.
            self.dark = self.dark or isinstance(error, PermissionError)
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


def views(pid: int) -> "Iterator[str]":
    """Where the kernel tells of a process; where its first thread has ended, only the others still say something."""
    yield f"/proc/{pid}"
    for thread in threads(pid):
        if thread != str(pid):
            yield f"/proc/{pid}/task/{thread}"


def _tables(pid: int) -> "Iterator[str]":
    """Where the descriptors of a process are listed: its threads share one table, unless they took care not to."""
    last = 0
    for thread in threads(pid):
        if not last or not _same_files(last, int(thread)):
            last = int(thread)
            yield f"/proc/{pid}/task/{thread}"


def _same_files(one: int, other: int) -> bool:
    try:
        return native("syscall", KCMP, one, other, FILES, 0, 0) == 0
    except OSError:
        return False  # a kernel without it, or a process that lets nobody look


def _in_flight(about: str) -> bool:
    """Whether descriptors wait in a socket for somebody to take them: until then no process has them."""
    counts = [line.split()[1] for line in _lines(about) if line.startswith(b"scm_fds:")]
    return any(count != b"0" for count in counts)


def _lines(file: str) -> list[bytes]:
    try:
        with open(file, "rb") as opened:
            return opened.readlines()
    except OSError:
        return []


def shared_memory_device() -> int:
    """The device that files without a filesystem are on: memfd, shared mappings."""
    probe = posix.memfd_create("probe")
    try:
        return posix.fstat(probe).st_dev
    finally:
        posix.close(probe)


def open_beneath(place: str, path: bytes) -> int:
    """Open a directory below a place without leaving it or following a link, however long its path is."""
    how = OPEN_DIRECTORY.to_bytes(8, "little") + bytes(8) + WITHIN.to_bytes(8, "little")
    at = posix.open(place, OPEN_DIRECTORY)
    while path:
        cut = len(path) if len(path) <= LONGEST_PATH else path.rfind(b"/", 0, LONGEST_PATH)
        try:
            step = native("syscall", OPENAT2, at, path[:cut], how, len(how))
        finally:
            posix.close(at)
        at, path = step, path[cut:].lstrip(b"/")
    return at
