"""Blots secrets out of what a job says, also where one arrives in pieces.

Part of the detached supervisor: it imports only what is built in, and nothing of ours.
"""

import _json
import binascii

MARK = b"[redacted]"
# Shorter ones are left alone: they are found in every other line, and to blot them out would garble everything.
SHORTEST = 8
# JSON, with letters beyond ASCII as they are and without.
_SPELT = (_json.encode_basestring, _json.encode_basestring_ascii)
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def forms(secret: str) -> set[bytes]:
    """The value as it is, in JSON, percent-encoded, and in base64 wherever it lies there; none of a short value."""
    value = secret.encode("utf-8", "surrogateescape")
    if len(value) < SHORTEST:
        return set()
    quoted = {spell(secret)[1:-1].encode("utf-8", "surrogateescape") for spell in _SPELT}
    found = {value, *quoted, *(one.replace(b"/", rb"\/") for one in quoted)}
    for plain in (_PLAIN, _PLAIN | {ord("/")}):
        for hexadecimal in ("%%%02X", "%%%02x"):
            found.add("".join(chr(one) if one in plain else hexadecimal % one for one in value).encode())
    for before in range(3):
        coded = binascii.b2a_base64(bytes(before) + value, newline=False)
        # What its neighbours have a share in is not the same everywhere.
        inner = coded[(before * 8 + 5) // 6 : (before + len(value)) * 8 // 6]
        found |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    return found


class Blotter:
    """One stream; what may be the beginning of a secret waits for what comes next."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        every = {form for secret in secrets for form in forms(secret)}
        # Of two that begin at the same place, the longer.
        self._forms = sorted(every, key=len, reverse=True)
        self._held = b""

    def take(self, chunk: bytes, *, last: bool = False) -> bytes:
        """What can be shown, now that this was said too; at the `last` nothing waits any more."""
        said, self._held = self._held + chunk, b""
        shown, at = [], 0
        found = {form: said.find(form) for form in self._forms}
        begun = len(said) if last else self._begun(said, 0)
        while True:
            matches = ((place, -len(form), form) for form, place in found.items() if place >= 0)
            where, _, form = min(matches, default=(len(said), 0, b""))
            if begun <= where:
                break
            shown += [said[at:where], MARK]
            at = where + len(form)
            begun = begun if begun >= at else len(said) if last else self._begun(said, at)
            # Looked up again only where it was passed, so that a long row of secrets is read once.
            found |= {form: said.find(form, at) for form, place in found.items() if 0 <= place < at}
        self._held = said[begun:]
        return b"".join((*shown, said[at:begun]))

    def whole(self, text: str) -> str:
        """A text of its own without the secrets; the stream is not touched."""
        fresh = Blotter(())
        fresh._forms = self._forms
        return fresh.take(text.encode("utf-8", "surrogateescape"), last=True).decode("utf-8", "replace")

    def _begun(self, said: bytes, at: int) -> int:
        """The first place from which everything to the end may be the beginning of a secret."""
        first = len(said)
        for form in self._forms:
            place = max(at, len(said) - len(form) + 1)
            while 0 <= (place := said.find(form[:1], place)) < first:
                if form.startswith(said[place:]):
                    first = place
                place += 1
        return first
