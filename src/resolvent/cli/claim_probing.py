"""What doctor says of claims on the forge: those of other hosts that keep this one from a run."""

from resolvent.cli.diagnosis import Probe, fault, found
from resolvent.errors import ResolventError
from resolvent.wiring import Home


async def claim_probes(home: Home) -> list[Probe]:
    """A line for each that somebody elsewhere holds; nothing when nobody is in our way."""
    from resolvent.intake.claims import claims

    try:
        held = [one for one in await claims(home) if not one.ours]
    except ResolventError as error:
        return [fault("claims", error)]
    return [
        found(
            f"claim {one.subject}",
            f"held by {one.said}",
            state="note",
            fix=f"resolvent claim release {one.subject} --force  # if that host is gone",
        )
        for one in held
    ]
