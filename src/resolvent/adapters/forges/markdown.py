"""An issue read from a Markdown file: its first heading is the title, the rest is the body."""

import hashlib
import os
import re
import stat
from pathlib import Path

from resolvent.domain.subject import Issue
from resolvent.errors import NotFound, UsageError

MAX_BYTES = 1 << 20
MAX_TITLE = 256

_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(?P<title>.*?)(?:[ \t]+#+)?[ \t]*")
# Dashes underline headings too, but also close front matter and part paragraphs: they do not count.
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*")
_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})")
_HINT = "write a UTF-8 file that starts with `# what is wrong`"


def issue_from_markdown(path: Path) -> Issue:
    """The issue a file describes; UsageError when the file is not a small text with a title."""
    text = _read(path)
    lines = text.splitlines(keepends=True)
    first, after = _title_lines(lines)
    heading = _HEADING.fullmatch(lines[first].rstrip("\r\n"))
    title = (heading["title"] if heading else lines[first]).strip()
    if len(title) > MAX_TITLE or not any(map(str.isalnum, title)):
        raise UsageError(f"{path}: a title has words, and at most {MAX_TITLE} characters", hint=_HINT)
    body = "".join(lines[:first] + lines[after:]).strip("\r\n")
    return Issue(number=None, title=title, body=body, url=path.resolve().as_uri(), slug=_slug(path))


def _read(path: Path) -> str:
    try:
        # A pipe or a device would block or never end: opened without waiting, then refused by its type.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is not a regular file", hint=_HINT)
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise NotFound(f"{path} does not exist", hint="name an existing Markdown file with --file") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint=_HINT) from error
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{path} is larger than {MAX_BYTES} bytes", hint="shorten it; link to long logs instead")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", hint=_HINT) from error
    if "\0" in text:
        raise UsageError(f"{path} is a binary file", hint=_HINT)
    if not text.strip():
        raise UsageError(f"{path} is empty", hint=_HINT)
    return text


def _title_lines(lines: list[str]) -> tuple[int, int]:
    """The lines that hold the first heading outside a code block; without any heading, the first line with text."""
    fence = ""
    for at, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark["mark"]
        elif mark and mark["mark"].startswith(fence):
            fence = ""
        elif fence:
            continue
        elif _HEADING.fullmatch(line.rstrip("\r\n")):
            return at, at + 1
        elif line.strip() and at + 1 < len(lines) and _UNDERLINE.fullmatch(lines[at + 1].rstrip("\r\n")):
            return at, at + 2
    first = next((at for at, line in enumerate(lines) if any(map(str.isalnum, line))), 0)
    return first, first + 1


def _slug(path: Path) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")[:50].strip("-")
    # A name without any plain letter still needs its own branch and subject.
    return words or hashlib.sha256(os.fsencode(path.stem)).hexdigest()[:8]
