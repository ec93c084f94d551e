"""Clocks: the real one, and one that stands still so that two runs can be compared to the byte."""

import time


class SystemClock:
    """The time of this machine."""

    frozen_at: float | None = None

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()


class FrozenClock:
    """One instant, for ever."""

    def __init__(self, at: float) -> None:
        self.frozen_at: float | None = at
        self._at = at

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._at
