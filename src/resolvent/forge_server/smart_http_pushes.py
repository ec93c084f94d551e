"""What GitHub does around a push: it refuses refs by name and by content, and tells who listens of the rest."""

import contextlib
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.types import Message, Send

from resolvent.adapters.git import Git
from resolvent.adapters.git_refs import refs_of
from resolvent.errors import ForgeRefused
from resolvent.forge_server.door import Admitted
from resolvent.forge_server.holdings import Holdings

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub

# Run by git for each ref of a push, with the objects there and the ref not yet moved. What it writes to its error
# output is shown to who pushes; why it refused goes to a file, because git itself would only say `hook declined`.
HOOK = """\
#!/bin/sh
refuse() {
    printf '%s %s\\n' "$ref" "$1" >> "$RESOLVENT_REFUSED"
    exit 1
}
ref=$1 old=$2 new=$3
case " $RESOLVENT_PROTECTED " in
*" $ref "*)
    printf 'error: GH006: Protected branch update failed for %s.\\nerror: %s\\n' "$ref" "$RESOLVENT_WHY" >&2
    refuse 'protected branch hook declined'
esac
if [ "$RESOLVENT_WORKFLOWS" = refused ] && [ -n "$(printf %s "$new" | tr -d 0)" ]; then
    found=$(git log --format= --name-only --cc --diff-filter=ACMRT "$new" --not --all -- .github/workflows) || exit 1
    found=$(printf '%s' "$found" | head -n 1)
    [ -z "$found" ] || refuse "refusing to allow a Personal Access Token to create or update workflow \\`$found\\`\\
 without \\`workflow\\` scope"
fi
printf '%s %s\\n' "$ref" "$old" >> "$RESOLVENT_MOVED"
"""
# Read, written and run by its owner alone.
OWNERS = 0o700


def protected(holdings: Holdings) -> dict[str, str]:
    """The refs that nobody but an admin may push to, and why: the default branch, once checks are required."""
    if not holdings.required:
        return {}
    names = holdings.required
    one = f'Required status check "{names[0]}" is expected.'
    why = one if len(names) == 1 else f"{len(names)} of {len(names)} required status checks are expected."
    return {f"refs/heads/{holdings.default_branch}": why}


@dataclass
class Push:
    """One push under way."""

    hub: "Hub"
    who: Admitted
    scratch: Path
    refuse: Mapping[str, str] = field(default_factory=dict)
    _heard: bool = False

    @classmethod
    @contextlib.asynccontextmanager
    async def begun(cls, hub: "Hub", who: Admitted) -> "AsyncIterator[Push]":
        """Watch what one push moves; when it is over, everybody who listens hears of it."""
        refuse = {} if who.by.permission == "admin" else protected(await hub.holdings())
        with tempfile.TemporaryDirectory(prefix="resolvent-push-") as scratch:
            push = cls(hub, who, Path(scratch), refuse)
            try:
                yield push
            finally:
                # Also when nobody waits for the answer any more: what moved has moved.
                await push.heard()

    async def heard(self) -> None:
        """Let pull requests follow and everybody know what moved; once."""
        if not self._heard:
            self._heard = True
            moved = self._lines("moved")
            await self.hub.pushed(self.who.by, {ref: old for ref, old in moved.items() if old.strip("0")}, only=moved)

    def environment(self) -> dict[str, str]:
        """What the hook is told."""
        return {
            "RESOLVENT_PROTECTED": " ".join(self.refuse),
            "RESOLVENT_WHY": next(iter(self.refuse.values()), ""),
            "RESOLVENT_WORKFLOWS": "allowed" if "workflow" in self.who.scopes else "refused",
            "RESOLVENT_REFUSED": str(self.scratch / "refused"),
            "RESOLVENT_MOVED": str(self.scratch / "moved"),
        }

    def retelling(self, send: Send) -> Send:
        """A `send` that lets git say why a ref was refused in GitHub's words."""
        start: Message = {}
        body = bytearray()

        async def retell(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            body.extend(message.get("body", b""))
            if message.get("more_body", False):
                return
            # Before the answer: who has it may look at once whether the pull request followed.
            await self.heard()
            told = retold(bytes(body), self._lines("refused"))
            await send(start)
            await send({"type": "http.response.body", "body": told})

        return retell

    def _lines(self, name: str) -> dict[str, str]:
        """What the hook wrote down of each ref."""
        file = self.scratch / name
        lines = file.read_text("utf-8", "surrogateescape").splitlines() if file.exists() else []
        return {ref: said for ref, _, said in (line.partition(" ") for line in lines)}


def ready(hooks: Path) -> None:
    """Let our hook be in that directory; ForgeRefused where it cannot be run, because git would go on without it."""
    hook = hooks / "update"
    try:
        hooks.mkdir(mode=OWNERS, exist_ok=True)
        hooks.chmod(OWNERS)
        if not hook.exists() or hook.read_bytes() != HOOK.encode() or not os.access(hook, os.X_OK):
            # Whole and runnable from the first moment on: another push may be looking for it.
            scratch = hooks / f".{os.getpid()}-{threading.get_ident()}"
            scratch.write_text(HOOK)
            scratch.chmod(OWNERS)
            scratch.rename(hook)
        runs = os.access(hook, os.X_OK)
    except OSError as error:
        raise _idle(hook, error.strerror or "it cannot be written") from error
    if not runs:
        raise _idle(hook, "no program can be run there")


def _idle(hook: Path, why: str) -> ForgeRefused:
    told = f"no push is taken, because {hook} cannot look at it: {why}"
    return ForgeRefused(told, hint='resolvent forge serve --directory "$HOME/forge"')


def retold(answer: bytes, reasons: Mapping[str, str]) -> bytes:
    """The answer of `git receive-pack` with these reasons for refused refs instead of its own."""
    if not reasons:
        return answer
    outer = _packets(answer)
    report = b"".join(packet[1:] for packet in outer if packet[:1] == b"\x01")
    lines = [_reason(line, reasons) for line in _packets(report)]
    told = b"".join(map(_packet, lines)) + b"0000"
    others = b"".join(_packet(packet) for packet in outer if packet[:1] != b"\x01")
    return others + _packet(b"\x01" + told) + b"0000"


def _reason(line: bytes, reasons: Mapping[str, str]) -> bytes:
    word, _, rest = line.partition(b" ")
    ref = rest.partition(b" ")[0].decode("utf-8", "surrogateescape")
    if word != b"ng" or ref not in reasons:
        return line
    return f"ng {ref} {reasons[ref]}\n".encode("utf-8", "surrogateescape")


def _packets(text: bytes) -> list[bytes]:
    found = []
    while len(text) >= 4:
        length = int(text[:4], 16)
        if length > 4:
            found.append(text[4:length])
        text = text[max(4, length) :]
    return found


def _packet(text: bytes) -> bytes:
    return b"%04x%s" % (len(text) + 4, text)


async def pull_refs(hub: "Hub", git: Git) -> None:
    """Let `refs/pull/N/head` be where every pull request is, for `git fetch origin pull/N/head`."""
    known = await refs_of(git, "refs/pull/")
    moves = []
    for number, item in (await hub.holdings()).items.items():
        ref = f"refs/pull/{number}/head"
        if item.kind == "pull" and item.head_commit.strip("0") and known.get(ref) != item.head_commit:
            moves.append(f"update {ref}\0{item.head_commit}\0\0")
    if moves:
        await git("update-ref", "-z", "--stdin", input="".join(moves).encode())
