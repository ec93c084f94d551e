"""The system calls a box may not make, as a BPF filter: for bwrap's `--seccomp FD` and for a process to put on itself.

Every call of Linux 6.18 is decided here; a call younger than that does not exist inside (ENOSYS), so that a new kernel
opens nothing. Part of the detached supervisor: it imports only what is built in, and what lies beside it.
"""

import _ctypes

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs.native import native
else:
    from native import native

# Audit architecture, and which column of CALLS holds its numbers.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "arm64": (0xC00000B7, 1)}
NEWEST = 469
X32 = 0x40000000

EPERM, EINVAL, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT = 1, 22, 38, 93, 95, 97

# name: number on x86_64 and on arm64; from 424 on they are the same everywhere.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # what is mounted where
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # other namespaces, and names in the one we have
    "unshare": (272, 97),
    "setns": (308, 268),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # kernel interfaces with a long record of holes
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "modify_ldt": (154, None),
    "memfd_secret": (447, 447),  # memory that no watchdog can count
    # files by handle walk around every path
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "lookup_dcookie": (212, 18),
    # the machine itself
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "vhangup": (153, 58),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
}
SHMGET = (29, 194)
# Without a namespace of its own a box would share these with every process of its user.
SHARED: dict[str, tuple[int | None, int | None]] = {
    "shmget": SHMGET,
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
# Calls that depend on their arguments.
CLONE, CLONE3, IOCTL, PERSONALITY = (56, 220), (435, 435), (16, 29), (135, 92)
FALLOCATE, PRLIMIT, SETPRIORITY = (285, 47), (302, 261), (141, 140)
SOCKET, SOCKETPAIR = (41, 198), (53, 199)

NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS|CGROUP|UTS|IPC|USER|PID|NET; NEWTIME is part of the signal number here
TERMINAL_INJECTION = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
HARMLESS_PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, 32 bit, UNAME26, both, and reading
FREEING_SPACE = (0x03, 0x08)  # punch a hole, collapse a range
TAKING_SPACE = (0x40305828, 0x4030582A, 0x40305839)  # FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE
LARGEST_SEGMENT = 1 << 16
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_SEQPACKET, SOCK_TYPES = 1, 5, 0xF
IP_PROTOCOLS = (0, 6, 17, 1, 58)  # the type's own, TCP, UDP, and the pings
# What is around the box that a filter is for: namespaces, and a cgroup that counts its memory; namespaces, and a
# watchdog that sees no segment which nobody has mapped; or nothing but Landlock.
COUNTED, WATCHED, SHARING = KINDS = ("counted", "watched", "sharing")

LOAD, AND, RETURN = 0x20, 0x54, 0x06
EQUAL, GREATER, AT_LEAST, ANY_BIT = 0x15, 0x25, 0x35, 0x45
KILL, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
# Made once in the nursery, and there for all boxes of its supervisors.
_MADE: dict[tuple[str, str], bytes] = {}


def program(machine: str, kind: str = WATCHED) -> bytes:
    """The filter for a machine as `uname -m` names it, and for one of the KINDS of box.

    A box that shares the host's namespaces gets no network, and of AF_UNIX only pairs, because the user's message bus
    is a pathname socket.
    """
    if machine not in MACHINES:
        raise ValueError(f"no system call filter for {machine}: it is made for x86_64 and aarch64")
    if kind not in KINDS:
        raise ValueError(f"a kind of box is one of {', '.join(KINDS)}, not {kind!r}")
    if (machine, kind) not in _MADE:
        _MADE[machine, kind] = _made(*MACHINES[machine], kind)
    return _MADE[machine, kind]


def _made(architecture: int, column: int, kind: str) -> bytes:
    code = [_op(LOAD, 4), _op(EQUAL, architecture, 1), _op(RETURN, KILL), _op(LOAD, 0)]
    # -1 is how a tracer skips a call, not x32.
    code += [_op(AT_LEAST, X32, 0, 3), _op(EQUAL, 0xFFFFFFFF, 0, 1), _refuse(ENOSYS), _op(RETURN, KILL)]
    code += [_op(GREATER, NEWEST, 0, 1), _refuse(ENOSYS)]
    return b"".join([*code, *_search(sorted(_cases(column, kind).items()))])


def _cases(column: int, kind: str) -> dict[int, list[bytes]]:
    """What to do about each call that is not simply allowed."""
    denied = DENIED | SHARED if kind == SHARING else DENIED
    numbers = [number for call in denied.values() if (number := call[column]) is not None]
    cases = {number: [_refuse(EPERM)] for number in numbers}
    # The C library asks for clone3 first and falls back: its flags lie in memory, where no filter can see them.
    cases[CLONE3[column]] = [_refuse(ENOSYS)]
    cases[CLONE[column]] = [_argument(0), _op(ANY_BIT, NEW_NAMESPACES, 0, 1), _refuse(EPERM), _allow()]
    cases[PERSONALITY[column]] = [_argument(0), *_among(HARMLESS_PERSONALITIES, _allow()), _refuse(EPERM)]
    # Space in no time is faster than any watchdog; where a filesystem cannot do it either, programs write instead.
    cases[FALLOCATE[column]] = [_argument(1), *_among(FREEING_SPACE, _allow()), _refuse(EOPNOTSUPP)]
    taking = _among(TAKING_SPACE, _refuse(EOPNOTSUPP))
    cases[IOCTL[column]] = [_argument(1), *_among(TERMINAL_INJECTION, _refuse(EPERM)), *taking, _allow()]
    cases[SOCKET[column]] = _socket(kind)
    cases[SOCKETPAIR[column]] = _socketpair(kind)
    if kind == WATCHED:
        # As if the kernel's own limit were that low; databases ask for a few bytes, to know each other by.
        small = [_upper_half(1), _op(EQUAL, 0, 0, 3), _argument(1), _op(GREATER, LARGEST_SEGMENT, 1), _allow()]
        cases[SHMGET[column]] = [*small, _refuse(EINVAL)]
    if kind == SHARING:
        # Its own limits and priority only: without a pid namespace every process of its user is in reach.
        own = [_argument(0), _op(EQUAL, 0, 1), _refuse(EPERM)]
        cases[PRLIMIT[column]] = [*own, _allow()]
        cases[SETPRIORITY[column]] = [*own, _argument(1), _op(EQUAL, 0, 0, 1), _allow(), _refuse(EPERM)]
    return cases


def _search(cases: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """Find a call's case by halving: the kernel walks this for every call it knows when the filter is loaded."""
    if len(cases) > 3:
        middle = len(cases) // 2
        below = _search(cases[:middle])
        return [_op(AT_LEAST, cases[middle][0], len(below)), *below, *_search(cases[middle:])]
    code: list[bytes] = []
    for number, block in cases:
        code += [_op(EQUAL, number, 0, len(block)), *block]
    return [*code, _allow()]


def install(code: bytes) -> None:
    """Put a filter on the calling thread and on all that comes from it, for good; OSError if the kernel refuses."""
    filters = (_Byte * len(code)).from_buffer_copy(code)
    header = (len(code) // 8).to_bytes(8, "little") + _ctypes.addressof(filters).to_bytes(8, "little")
    native("prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    native("prctl", 22, 2, header, 0, 0)  # PR_SET_SECCOMP


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return (code | true << 16 | false << 24 | value << 32).to_bytes(8, "little")


def _allow() -> bytes:
    return _op(RETURN, ALLOW)


def _refuse(error: int) -> bytes:
    return _op(RETURN, ERRNO | error)


def _argument(index: int) -> bytes:
    """Load the lower half: what the kernel itself reads of an int or a flag word."""
    return _op(LOAD, 16 + 8 * index)


def _upper_half(index: int) -> bytes:
    return _op(LOAD, 20 + 8 * index)


def _among(values: tuple[int, ...], verdict: bytes) -> list[bytes]:
    code: list[bytes] = []
    for value in values:
        code += [_op(EQUAL, value, 0, 1), verdict]
    return code


def _socket(kind: str) -> list[bytes]:
    """Families first, then what may be spoken in them; the routing netlink stays, it only lists interfaces."""
    routing = [_argument(2), _op(EQUAL, 0, 0, 1), _allow(), _refuse(EPROTONOSUPPORT)]
    code = [_argument(0), _op(EQUAL, AF_NETLINK, 0, len(routing)), *routing]
    if kind == SHARING:
        return [*code, _refuse(EAFNOSUPPORT)]
    code += [_op(EQUAL, AF_UNIX, 0, 1), _allow()]
    code += [_op(EQUAL, AF_INET, 2), _op(EQUAL, AF_INET6, 1), _refuse(EAFNOSUPPORT)]
    return [*code, _argument(2), *_among(IP_PROTOCOLS, _allow()), _refuse(EPROTONOSUPPORT)]


def _socketpair(kind: str) -> list[bytes]:
    """Pairs are how programs talk to their children; a datagram pair could still send to any pathname socket."""
    code = [_argument(0), _op(EQUAL, AF_UNIX, 1), _refuse(EAFNOSUPPORT)]
    if kind == SHARING:
        code += [_argument(1), _op(AND, SOCK_TYPES)]
        code += [*_among((SOCK_STREAM, SOCK_SEQPACKET), _allow()), _refuse(EPROTONOSUPPORT)]
    return [*code, _allow()]
