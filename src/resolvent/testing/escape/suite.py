"""The escape suite: every attack of the threat table, tried live on this machine's own walls.

What each verdict means: SAFE, the attack failed; ESCAPED, it did not; LIMITED, it was stopped late, or in part, because
there is no firm bound here; FLAGGED, it cannot be stopped and is shown to a person; NOT TRIED, it is not
possible here; BROKEN, it is, and could not be made all the same, so that nothing is known.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from resolvent.testing.escape import answering, git, leaving, proxying, reaching, taking, touching
from resolvent.testing.escape.arena import Arena, Attack
from resolvent.testing.escape.found import Broken, Found, Untried, Verdict

RUNGS = ("auto", "overlay", "memory", "copy", "landlock")
PATIENCE_S = 40.0
AT_ONCE = 2


async def _no_hole_at_hand(arena: Arena) -> Found:
    """A hole of the kernel itself that nobody knows yet."""
    raise Untried("the kernel is shared: for code that may hold one, put the whole machine into a virtual one")


ATTACKS: tuple[Attack, ...] = (
    *touching.ATTACKS,
    *reaching.ATTACKS,
    *taking.ATTACKS,
    *leaving.ATTACKS,
    *answering.ATTACKS,
    *proxying.ATTACKS,
    *git.ATTACKS,
    Attack("an unknown hole of the kernel", "few system calls, no nested namespaces", _no_hole_at_hand),
)


@dataclass(frozen=True)
class Result:
    """One row of the table."""

    attack: str
    defence: str
    verdict: Verdict
    said: str
    ms: int


async def tried(attack: Attack, arena: Arena) -> Result:
    """Try one attack; whatever it breaks in us on its way is an escape too, and so is waiting for ever."""
    begun = time.monotonic()
    (found,) = await asyncio.gather(asyncio.wait_for(attack.attempt(arena), PATIENCE_S), return_exceptions=True)
    ms = round((time.monotonic() - begun) * 1000)
    match found:
        case Found():
            verdict, said = found
        case Untried():
            verdict, said = "NOT TRIED", str(found)
        case Broken():
            verdict, said = "BROKEN", str(found)
        case TimeoutError():
            verdict, said = "ESCAPED", f"the host still waits after {PATIENCE_S:.0f} s"
        case Exception():
            verdict, said = "ESCAPED", f"it broke us: {type(found).__name__}: {found}"
        case _:
            raise found
    return Result(attack.name, attack.defence, verdict, " ".join(said.split()), ms)


@dataclass(frozen=True)
class Proof:
    """Every row of the table, and on which walls it was made."""

    rung: str
    # Whom the attacker's processes ran as.
    user: int
    results: tuple[Result, ...]

    @property
    def escaped(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.verdict == "ESCAPED")

    @property
    def holds(self) -> bool:
        """Something was tried, whatever is possible here could be, and nothing of it got out."""
        verdicts = {result.verdict for result in self.results}
        return bool(verdicts - {"NOT TRIED"}) and not verdicts & {"ESCAPED", "BROKEN"}

    @property
    def summary(self) -> str:
        """The last line: how many, and what became of them."""
        count = Counter(result.verdict for result in self.results)
        return (
            f"{len(self.results)} attacks, {count['ESCAPED']} escaped, {count['LIMITED']} limited, "
            f"{count['FLAGGED']} flagged, {count['NOT TRIED']} not tried"
            + (f", {count['BROKEN']} broken" if count["BROKEN"] else "")
        )


async def prove(
    directory: Path, *, rung: str = "auto", only: str = "", told: Callable[[Result], None] = lambda _: None
) -> Proof:
    """Every attack with that text in its name, in the table's order, on the strongest rung here or the named one."""
    attacks = [attack for attack in ATTACKS if only.lower() in attack.name.lower()]
    slots = asyncio.Semaphore(AT_ONCE)
    async with Arena.open(directory, rung=rung) as arena:

        async def one(attack: Attack) -> Result:
            async with slots:
                result = await tried(attack, arena)
            told(result)
            return result

        together = await asyncio.gather(*(one(attack) for attack in attacks if not attack.alone))
        apart = [await one(attack) for attack in attacks if attack.alone]
        by_name = {result.attack: result for result in (*together, *apart)}
        user = os.geteuid() if arena.rung.user is None else arena.rung.user
        return Proof(arena.rung.name, user, tuple(by_name[attack.name] for attack in attacks))
