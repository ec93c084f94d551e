"""Time as the engine sees it."""

from typing import Protocol


class Clock(Protocol):
    """Time as the engine sees it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    @property
    def frozen_at(self) -> float | None:
        """The one instant of a frozen clock, else None."""
