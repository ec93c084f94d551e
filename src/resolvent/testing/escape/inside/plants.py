"""What a hostile agent leaves in its branch for whoever takes it out; run by `act.py` in the workspace."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from resolvent.testing.escape.inside.act import leave, outcome
else:
    from act import leave, outcome

ODD_NAMES = (
    b"line\nbreak", b'quo"te', b"tab\there", b"back\\slash", b"no-utf8-\xff\xfe", b"-rf", b":(top)x", b"a -> b",
    b" lead", b"trail ", b"#hash", b"$(touch x)", b"`touch x`", b"D README.md", b"M 100644 inline x",
    "r\u202etxt".encode(), b"e\xcc\x81", b"x" * 255,
)  # fmt: skip
OVERLAY = ("opaque", "redirect", "metacopy", "origin", "whiteout", "impure", "nlink", "upper", "uuid")


def survey() -> dict[str, str]:
    """Every file of the workspace, its own repository left out: mode, time and a digest of what is in it."""
    found = {}
    for directory, names, files in os.walk("."):
        if directory == "." and ".git" in names:
            names.remove(".git")
        for name in files:
            path = os.path.join(directory, name)
            about = os.lstat(path)
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()[:12]
            found[path] = f"{about.st_mode:o} {int(about.st_mtime)} {digest}"
    return found


def edit_everything() -> int:
    """Write through, empty, rename, link, remove and re-mark every file there is, as rudely as can be."""
    count = 0
    for path in survey():
        with open(path, "r+b") as file:
            file.write(b"OVERWRITTEN")
            file.truncate(5)
        os.chmod(path, 0o777)
        os.utime(path, (1, 1))
        os.link(path, path + ".linked")
        os.rename(path, path + ".renamed")
        os.unlink(path + ".renamed")
        count += 1
    shutil.rmtree("src")
    os.mkdir("src")
    return count


def links(secret: str, directory: str) -> dict[str, str]:
    """Lead whoever follows to a secret of the host: by a link, by a directory that became one, by a second name."""
    os.symlink(secret, "secret-link")
    os.symlink("../" * 40 + secret.lstrip("/"), "secret-relative")
    os.symlink("/proc/self/environ", "environ-link")
    shutil.rmtree("src")
    os.symlink(directory, "src")
    os.mkdir("notes")
    os.symlink(directory, "notes/inner")
    os.unlink("README.md")
    os.symlink(secret, "README.md")
    return {"link": outcome(os.link, secret, "second-name")}


def specials() -> dict[str, str]:
    """Things that are no files: whoever opens them waits for ever, or talks to a device."""
    os.mkfifo("pipe")
    os.unlink("README.md")
    os.mkfifo("README.md")
    found = {"socket": outcome(lambda: socket.socket(socket.AF_UNIX).bind("socket"))}
    found["memory device"] = outcome(os.mknod, "memory", stat.S_IFCHR | 0o666, os.makedev(1, 1))
    found["disk device"] = outcome(os.mknod, "disk", stat.S_IFBLK | 0o666, os.makedev(8, 0))
    # What the overlay itself uses to say that a file is gone.
    found["whiteout"] = outcome(os.mknod, "value.txt.whiteout", stat.S_IFCHR | 0o600, os.makedev(0, 0))
    return found


def deep(levels: int) -> int:
    """A directory in a directory in a directory."""
    for level in range(levels):
        os.mkdir("d")
        os.chdir("d")
        if level % 100 == 0:
            leave("file", "deep")
    return levels


def locked() -> None:
    """Directories and files that not even their owner may look into."""
    os.makedirs("locked/inner")
    leave("locked/inner/file", "hidden")
    leave("sealed", "hidden")
    for path, mode in (("sealed", 0), ("locked/inner", 0), ("locked", 0), ("src", 0o300)):
        os.chmod(path, mode)


def odd_names() -> list[str]:
    """Files whose names are sentences in somebody's language; the names, in hexadecimal."""
    os.mkdir("odd")
    for name in ODD_NAMES:
        with open(b"odd/" + name, "wb") as file:
            file.write(name)
    return [name.hex() for name in ODD_NAMES]


def pose_as_git(names: list[str], command: str) -> None:
    """Directories that some file system takes for a repository, with configuration in them."""
    for number, name in enumerate(names):
        os.makedirs(f"src/{number}/{name}/hooks")
        leave(f"src/{number}/{name}/config", f"[core]\n\tfsmonitor = {command}\n")
        leave(f"src/{number}/{name}/HEAD", "ref: refs/heads/main\n")


def set_ids() -> dict[str, int]:
    """A program that gives its user away, in the workspace and in our own home; the modes it really has."""
    found = {}
    for path in ("root-shell", os.path.join(os.environ["HOME"], "root-shell")):
        shutil.copyfile("/bin/sh", path)
        os.chmod(path, 0o6755)
        found[path] = stat.S_IMODE(os.stat(path).st_mode)
    return found


def forge_overlay(secret: str) -> dict[str, str]:
    """Speak to the overlay in its own marks: hide what is below, be elsewhere, hold another file's bytes."""
    os.mkdir("forged")
    leave("forged/file", "")
    found = {}
    for path in ("forged", "forged/file", "src", "README.md"):
        for mark in OVERLAY:
            value = secret.encode() if mark == "redirect" else b"y" if mark == "opaque" else b""
            for space in ("user", "trusted"):
                name = f"{space}.overlay.{mark}"
                found[f"{name} {path}"] = outcome(os.setxattr, path, name, value)
    return found


def answer(kind: str, target: str) -> str:
    """An answer that is not a file."""
    place = os.environ["RESOLVENT_ANSWER"]
    if kind == "link":
        os.symlink(target, place)
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory":
        os.mkdir(place)
    return kind


def spoil_home(target: str) -> str:
    """Put a link that leads nowhere yet, and a file, where our own directories were."""
    home, tmp = os.environ["HOME"], os.environ["TMPDIR"]
    shutil.rmtree(home)
    shutil.rmtree(tmp)
    os.symlink(target, home)
    leave(tmp, "a file")
    return "replaced"


def later(paths: list[str], text: str = "hello\n") -> None:
    """Files that somebody runs some day."""
    for path in paths:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        leave(path, text)
