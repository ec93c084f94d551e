"""One SQL for two databases, and one text for both: what is written is read back, whatever the string holds."""

import re
from functools import lru_cache

Scalar = str | int | float | None

# Postgres cannot hold NUL in TEXT, and neither database a lone surrogate. A private character followed by the code
# point stands for them, and for itself, so that no text means two things.
_MARK = "\U000f0000"
_UNSTORABLE = re.compile(f"[\0\ud800-\udfff{_MARK}]")
_STORED = re.compile(f"{_MARK}([0-9a-f]{{5}})")

_TOKEN = re.compile(r"'(?:[^']|'')*'|::|:([a-z_][a-z0-9_]*)", re.I)


def stored(value: Scalar) -> Scalar:
    """The parameter as a database keeps it."""
    if isinstance(value, str):
        if "\0" not in value and value.isascii():
            return value
        return _UNSTORABLE.sub(lambda found: f"{_MARK}{ord(found[0]):05x}", value)
    return int(value) if isinstance(value, bool) else value


def restored(value: Scalar) -> Scalar:
    """The value as it was before `stored`."""
    if isinstance(value, str) and _MARK in value:
        return _STORED.sub(lambda found: chr(int(found[1], 16)), value)
    return value


@lru_cache(maxsize=512)
def for_psycopg(sql: str) -> str:
    """`:name` as `%(name)s`; string literals and casts stay."""
    return _TOKEN.sub(lambda found: f"%({found[1]})s" if found[1] else found[0], sql.replace("%", "%%"))
