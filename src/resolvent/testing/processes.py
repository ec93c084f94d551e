"""Processes of this machine, found by what stands on their command lines."""

import os
from contextlib import suppress
from pathlib import Path


def with_words(words: bytes) -> dict[int, bytes]:
    """The command lines of all processes that have these words in theirs, by process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            # One that ends while we look was not there.
            with suppress(OSError):
                command = Path(f"/proc/{name}/cmdline").read_bytes()
                if words in command:
                    found[int(name)] = command
    return found
