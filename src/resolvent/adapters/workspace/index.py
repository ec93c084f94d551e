"""A git index that knows its files already: with the right stat data in it, git opens none of them to say "clean"."""

import hashlib
import os
import struct
from collections.abc import Mapping

from resolvent.errors import Bug

_HEADER = struct.Struct(">4sII")
_TIMES_AND_PLACE = struct.Struct(">6I")
_OWNER_AND_SIZE = struct.Struct(">3I")
_FLAGS = struct.Struct(">H")
# Entries begin with 40 bytes of what the disk said; the mode among them is git's own and stays.
_OWNER_AT, _OID_AT = 28, 40
_LONG = 0xFFF
_32 = 0xFFFFFFFF


def entry_count(index: bytes) -> int:
    """How many paths an index holds, from its first bytes."""
    return int(_HEADER.unpack_from(index)[2])


def warmed(index: bytes, found: Mapping[bytes, os.stat_result], *, hash: str) -> bytes:
    """The index with what the disk says of the paths found, whose contents we wrote and need not look at."""
    magic, version, count = _HEADER.unpack_from(index)
    if (magic, version) != (b"DIRC", 2):
        raise Bug(f"git wrote an index of version {version}, not the one it was asked for")
    size = hashlib.new(hash, usedforsecurity=False).digest_size
    warm = bytearray(index[:-size])
    at = _HEADER.size
    for _ in range(count):
        flags_at = at + _OID_AT + size
        begin = flags_at + _FLAGS.size
        length = _FLAGS.unpack_from(warm, flags_at)[0] & _LONG
        end = warm.index(0, begin) if length == _LONG else begin + length
        stat = found.get(bytes(warm[begin:end]))
        if stat is not None:
            _fill(warm, at, stat)
        # One to eight bytes of nothing: the next entry begins at a multiple of eight from this one.
        at += (end - at + 8) // 8 * 8
    return bytes(warm) + hashlib.new(hash, warm, usedforsecurity=False).digest()


def _fill(warm: bytearray, at: int, stat: os.stat_result) -> None:
    changed, modified = divmod(stat.st_ctime_ns, 10**9), divmod(stat.st_mtime_ns, 10**9)
    place = (stat.st_dev & _32, stat.st_ino & _32)
    _TIMES_AND_PLACE.pack_into(warm, at, changed[0] & _32, changed[1], modified[0] & _32, modified[1], *place)
    _OWNER_AND_SIZE.pack_into(warm, at + _OWNER_AT, stat.st_uid & _32, stat.st_gid & _32, stat.st_size & _32)
