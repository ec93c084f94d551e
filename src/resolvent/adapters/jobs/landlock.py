"""Walls without namespaces: Landlock lets a process give up every file, port and signal that it will not need.

What Landlock does not see, the filter of seccomp.py closes; what neither does is said, not hidden.
Part of the detached supervisor: it imports only what is built in, and what lies beside it.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.native import native
else:
    from native import native

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
BENEATH = 1
SET_NO_NEW_PRIVS = 38
ENOSYS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV, RESOLVE_UNIX = 1 << 13, 1 << 14, 1 << 15, 1 << 16
BIND_TCP, CONNECT_TCP = 1, 2
ABSTRACT_SOCKETS, SIGNALS = 1, 2
FIRST_RIGHTS = (1 << 13) - 1
ADDED_RIGHTS = ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV), (9, RESOLVE_UNIX))
NETWORK_ABI, SCOPES_ABI = 4, 6

# A rule for something that is no directory takes only these.
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX
READING = EXECUTE | READ_FILE | READ_DIR
LOOKING = READ_FILE | READ_DIR

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# What programs ask about the machine; nothing about other processes, whose command lines may hold secrets.
MACHINE = (
    *(f"/proc/{name}" for name in ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version")),
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
)


def abi() -> int:
    """The version of Landlock this kernel offers; 0 when it has none."""
    try:
        return native("syscall", CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def unenforced() -> tuple[str, ...]:
    """What stays open on this kernel, a sentence each; assumes the system call filter beside it."""
    version = abi()
    left = ["modes, owners, times and attributes of the user's own files can be changed anywhere, and names looked up"]
    if version < 2:
        left.append("files cannot be moved between directories (Linux 5.19 allows it)")
    if version < 3:
        left.append("files that may not be written can still be emptied by truncate(2) (Linux 6.2 closes it)")
    if version < SCOPES_ABI:
        left.append("signals reach every process of the same user (Linux 6.12 closes it)")
    return tuple(left)


def restrict(reads: list[str], writes: list[str]) -> None:
    """Confine the calling thread and all that comes from it to these trees, for good; OSError without Landlock.

    A path that is not there is skipped.
    """
    version = abi()
    if not version:
        raise OSError(ENOSYS, "this kernel has no Landlock, or it is not among the modules in its lsm= list")
    handled = FIRST_RIGHTS
    for since, right in ADDED_RIGHTS:
        handled |= right if version >= since else 0
    ruleset = _checked("landlock_create_ruleset", CREATE_RULESET, *_attributes(handled, version), 0)
    writing = handled & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
    for path in writes:
        _permit(ruleset, path, writing)
    for path in reads:
        _permit(ruleset, path, READING)
    for path in DEVICES:
        _permit(ruleset, path, handled & (READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV))
    # Its own entry only: it keeps its number when it becomes the command, and its children get other ones.
    for path in (*MACHINE, f"/proc/{posix.getpid()}"):
        _permit(ruleset, path, LOOKING)
    native("prctl", SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _checked("landlock_restrict_self", RESTRICT_SELF, ruleset, 0)
    posix.close(ruleset)


def _attributes(handled: int, version: int) -> tuple[bytes, int]:
    """The ruleset, as long as this kernel knows it."""
    words = [handled]
    if version >= NETWORK_ABI:
        words.append(BIND_TCP | CONNECT_TCP)
    if version >= SCOPES_ABI:
        words.append(ABSTRACT_SOCKETS | SIGNALS)
    return b"".join(word.to_bytes(8, "little") for word in words), 8 * len(words)


def _permit(ruleset: int, path: str, rights: int) -> None:
    try:
        place = posix.open(path, posix.O_PATH | posix.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        directory = posix.fstat(place).st_mode & 0o170000 == 0o040000
        allowed = rights if directory else rights & OF_FILES
        rule = allowed.to_bytes(8, "little") + place.to_bytes(4, "little")
        _checked(f"landlock_add_rule for {path!r}", ADD_RULE, ruleset, BENEATH, rule, 0)
    finally:
        posix.close(place)


def _checked(what: str, number: int, *arguments: int | bytes | None) -> int:
    try:
        return native("syscall", number, *arguments)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: {what}") from error
