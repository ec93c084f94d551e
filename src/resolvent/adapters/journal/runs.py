"""The life of a run as transactions: what must be true together is written together."""

from collections.abc import Mapping, Sequence

from resolvent.adapters.journal import holds, queries
from resolvent.adapters.journal.portable import Scalar
from resolvent.adapters.journal.rows import columns, value_of
from resolvent.adapters.journal.store import Connection
from resolvent.domain.record import RunRow
from resolvent.errors import Bug, NotFound, SubjectTaken, UsageError

SHOWN = 10


def add(connection: Connection, run: RunRow, subjects: Sequence[str]) -> None:
    """A new run with its subjects; the same run again changes nothing."""
    if not connection.write(queries.ADD_RUN, **columns(run, "result", "inputs")):
        known = value_of(RunRow, connection.read(queries.RUN, id=run.id)[0], "result", "inputs")
        if (known.subject, known.created_at) != (run.subject, run.created_at):
            raise Bug(f"two runs are called {run.id}")
        return
    _claim_all(connection, run.id, subjects)
    # From here on it is held as long as the run is active, and no longer because somebody is about to begin it.
    connection.write(holds.SETTLE, run=run.id)
    connection.announce()


def claim(connection: Connection, run: str, subject: str) -> None:
    """One more subject for an active run."""
    if not connection.write(queries.HOLD_ACTIVE, run=run):
        raise UsageError(f"run {run} is {state_of(connection, run)}", hint=f"resolvent show {run}")
    _claim_all(connection, run, [subject])


def only(named: Sequence[str], prefix: str) -> str:
    """The one run a prefix means."""
    if not named or not prefix:
        raise _unknown(prefix)
    if len(named) > 1:
        shown = ", ".join([*named[:SHOWN], "…"] if len(named) > SHOWN else named)
        raise UsageError(f"more than one run starts with {prefix}: {shown}", hint=f"resolvent show {named[0]}")
    return named[0]


def state_of(connection: Connection, run: str) -> str:
    """The state of a run that is known to be there."""
    rows = connection.read(queries.RUN_STATE, run=run)
    if not rows:
        raise _unknown(run)
    return str(rows[0]["state"])


def set_state(connection: Connection, run: str, changes: Mapping[str, Scalar]) -> None:
    """A new state for an active run; one that has ended stays ended. Wakes whoever waits in either case."""
    known = state_of(connection, run)
    if changes["state"] == "ended" and known != "ended":
        raise Bug(f"run {run} is ended by its outcome, not by a state")
    connection.write(queries.SET_STATE, run=run, **changes)
    connection.announce()


def end(connection: Connection, run: str, ending: Mapping[str, Scalar]) -> None:
    """The outcome, and the subjects free again; the first ending stays."""
    if connection.write(queries.END_RUN, run=run, **ending):
        connection.write(queries.RELEASE, run=run)
        connection.write(holds.SETTLE, run=run)
        connection.announce()
    else:
        state_of(connection, run)


def reopen(connection: Connection, run: str, *, subjects: Sequence[str], now: float) -> None:
    """Queue it again; one that is queued or running already stays so."""
    if connection.write(queries.REOPEN, run=run, now=now):
        _claim_all(connection, run, subjects)
        connection.write(holds.SETTLE, run=run)
        connection.announce()
    else:
        state_of(connection, run)


def refreeze(connection: Connection, run: str, *, inputs: str, now: float) -> None:
    """Other inputs for a run that nobody plays."""
    if not connection.write(queries.REFREEZE, run=run, inputs=inputs, now=now):
        raise UsageError(f"run {run} is {state_of(connection, run)}", hint=f"resolvent cancel {run}")


def ask_to_cancel(connection: Connection, run: str, *, reason: str, now: float) -> None:
    """Mark an active run; one that has ended is past that."""
    if connection.write(queries.ASK_TO_CANCEL, run=run, reason=reason, now=now):
        connection.announce()
    else:
        state_of(connection, run)


def delete(connection: Connection, run: str) -> None:
    """An ended run and everything that belongs to it."""
    if not connection.write(queries.DELETE_ENDED, run=run):
        raise UsageError(f"run {run} is {state_of(connection, run)}", hint=f"resolvent cancel {run}")
    connection.write(queries.DELETE_COPIES, run=run)


def _claim_all(connection: Connection, run: str, subjects: Sequence[str]) -> None:
    # In one order for everybody: two runs that claim the same subjects crosswise would lock each other out.
    for subject in sorted(set(subjects)):
        while not connection.write(queries.CLAIM, subject=subject, run=run):
            held = connection.read(queries.HOLDER, subject=subject)
            if held and held[0]["run"] != run:
                holder = held[0]["run"]
                raise SubjectTaken(
                    f"run {holder} is active on {subject}",
                    hint=f"resolvent watch {holder}",
                    run=holder,
                    subject=subject,
                )
            if held:
                break


def _unknown(run: str) -> NotFound:
    return NotFound(f"no run is called {run!r}", hint="resolvent runs")
