"""Names as hostile data: which may stand in a commit, and how ids and paths are written down safely."""

import re
from hashlib import sha256

# What HFS+ ignores in a name, after git's own table: `.g<ZWNJ>it` is `.git` on such a disk.
_IGNORABLE = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def poses_as_git(component: bytes) -> bool:
    """Some file system would take this name for `.git`, and what is in it for configuration."""
    text = component.decode("utf-8", "surrogateescape").translate(_IGNORABLE).lower()
    # NTFS reads a backslash as a separator, a colon as a stream, and drops trailing dots and spaces.
    return any(part.partition(":")[0].rstrip(" .") in (".git", "git~1") for part in text.split("\\"))


def unsafe(path: bytes) -> bool:
    """The path cannot be laid out on a disk without leaving it or reaching a `.git`."""
    return any(part in (b"", b".", b"..") or poses_as_git(part) for part in path.split(b"/"))


def directory_name(id: str) -> str:
    """A name for a directory or a ref for any id: readable, short, and another one for every other id."""
    readable = re.sub(r"[^A-Za-z0-9_]+", "-", id)[:40].strip("-")
    return f"{readable}-{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}".lstrip("-")


def shown(path: bytes) -> str:
    """A path as text that fits into any record; bytes that are no UTF-8 are escaped, and no two paths look the same."""
    # A name that looks as if it were escaped is escaped itself.
    return path.replace(b"\\x", b"\\x5cx").decode("utf-8", "backslashreplace")


def meant(text: str) -> bytes:
    """The path that is shown as this text."""
    return _ESCAPED.sub(lambda escaped: bytes([int(escaped[1], 16)]), text.encode("utf-8", "surrogatepass"))
