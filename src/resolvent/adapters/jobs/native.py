"""Functions of the C library that Python does not offer.

Part of the detached supervisor: it imports only what is built in, and nothing of ours.
"""

import _ctypes
import posix


class _Function(_ctypes.CFuncPtr):
    _flags_ = 1 | 8  # the C calling convention, and errno is kept for us


def native(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of the C library; OSError, which names it, when it answers with less than zero."""
    answer = int(_Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), name))(*arguments))  # type: ignore[arg-type]
    if answer < 0:
        number = _ctypes.get_errno()
        said = b" ".join(word for word in arguments if isinstance(word, bytes)).decode(errors="replace")
        raise OSError(number, posix.strerror(number), f"{name} {said}".strip())
    return answer
