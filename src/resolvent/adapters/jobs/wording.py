"""What bubblewrap is told: which namespaces it makes, and what the box shows where.

Part of the detached supervisor: it imports only what is built in, and nothing of ours.
"""

import posix

# Where everything that a box shows is bound before bubblewrap puts it in its place.
STAGE = "/sys"
WORKSPACE, PRIVATE, OBJECTS = "/workspace", "/run/resolvent", "/run/objects"
SHM_BYTES, TMP_BYTES = 64 << 20, 512 << 20
TOP = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Of the system's own /etc, as it is: certificates, and which program of several is meant. Nothing there is secret.
TREES = ("alternatives", "ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted", "fonts")


def words(order: dict, filter: int) -> bytes:  # type: ignore[type-arg]
    """The arguments as `--args` takes them; ValueError for one that would be read as two."""
    said = _arguments(order, filter)
    if any("\0" in word for word in said):
        raise ValueError("a path or a variable for the box has a NUL in it")
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in said)


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
