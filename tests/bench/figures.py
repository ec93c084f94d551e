"""Measured numbers, and how they are printed: each beside its bar."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """One measured number and the bar it must not pass; a bar of None is for information."""

    name: str
    value: float
    unit: str
    bar: float | None
    how: str
    # The bar is the least that is asked for, not the most.
    least: bool = False

    @property
    def over(self) -> bool:
        """It is on the wrong side of its bar."""
        if self.bar is None:
            return False
        return self.value < self.bar if self.least else self.value > self.bar


def median(name: str, seconds: Sequence[float], *, bar: float | None = None, how: str = "") -> Figure:
    """The median of several, in milliseconds, with how many they were and how far they spread."""
    times = [one * 1e3 for one in seconds]
    spread = f"p50 of {len(times)}"
    if len(times) > 1:
        spread += f", best {min(times):.2f}, p95 {statistics.quantiles(times, n=20, method='inclusive')[-1]:.2f} ms"
    return Figure(name, statistics.median(times), "ms", bar, ", ".join(filter(None, (spread, how))))


def table(figures: Sequence[Figure]) -> str:
    """Figure, bar and verdict, one line each."""
    width = max((len(figure.name) for figure in figures), default=0)
    lines = [f"{'figure':{width}} {'measured':>14} {'bar':>12}  {'':4} how"]
    for figure in figures:
        sign = "≥" if figure.least else "≤"
        bar = f"{sign} {figure.bar:,g} {figure.unit}" if figure.bar is not None else "-"
        verdict = "" if figure.bar is None else "OVER" if figure.over else "ok"
        measured = f"{figure.value:,.0f}" if figure.value >= 10_000 else f"{figure.value:.3f}"
        lines.append(
            f"{figure.name:{width}} {measured:>11} {figure.unit:2} {bar:>12}  {verdict:4} {figure.how}".rstrip()
        )
    return "\n".join(lines)
