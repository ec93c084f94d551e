"""What came from the forge by itself, remembered."""

from collections.abc import Sequence
from typing import Protocol

from resolvent.domain.arrival import Arrival, Fate


class Arrivals(Protocol):
    """Arrivals and what became of them: whoever tells one again, in whichever way, changes nothing."""

    async def record(self, arrivals: Sequence[Arrival], *, delivery: str = "") -> tuple[Arrival, ...] | None:
        """Keep those that are new, and return them; None when this delivery was recorded before."""

    async def pending(self) -> tuple[Arrival, ...]:
        """Those that nothing became of yet, in the order they were recorded."""

    async def with_fate(self, fate: Fate, *, limit: int = 100) -> tuple[Arrival, ...]:
        """Those this became of, newest first."""

    async def settle(self, arrival: Arrival, fate: Fate, *, reason: str = "") -> Arrival:
        """Say what became of it; the first word stays."""

    async def tried(self, arrival: Arrival) -> int:
        """It could not be done once more; how often that was so."""

    async def cause(self, run: str) -> Arrival | None:
        """What a run came of."""

    async def unlabel(self, subject: str, *, at: float) -> None:
        """It has not the label: having it again is news."""

    async def labelled_before(self, subject: str, *, at: float) -> None:
        """It has the label and is closed, so it asks for nothing: having it still when it is open again is no news."""

    async def spend_label(self, subject: str) -> None:
        """The text changed that its label stood for: only a label that is put on anew begins another run."""

    async def at_work(self, subject: str) -> str:
        """The active run here that holds the subject; empty when none does."""

    async def cursor(self, name: str) -> float | None:
        """Up to where a listing was read; None when it never was."""

    async def advance(self, name: str, instant: float) -> None:
        """It was read up to there; never back."""
