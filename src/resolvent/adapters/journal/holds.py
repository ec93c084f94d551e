"""What we claimed on the forge, in the journal's store: written before the claim is made, and gone after it is."""

from resolvent.adapters.journal.rows import columns, value_of
from resolvent.adapters.journal.store import Connection
from resolvent.domain.arrival import Hold, HoldState

_COLUMNS = "run, subject, holder, at, state, until"
_KEEP = """
UPDATE holds SET until = :until WHERE run = :run AND subject = :subject AND state IN ('held', 'claimed')
"""
_ADD = f"""
INSERT INTO holds ({_COLUMNS}) VALUES (:run, :subject, :holder, :at, :state, :until)
ON CONFLICT (subject, holder) DO NOTHING
"""
_ONE = f"SELECT {_COLUMNS} FROM holds WHERE run = :run AND subject = :subject AND state IN ('held', 'claimed')"
_MARK = "UPDATE holds SET state = :state WHERE subject = :subject AND holder = :holder"
_FORGET_REFUSED = "DELETE FROM holds WHERE subject = :subject AND state = 'refused'"

OURS = f"SELECT {_COLUMNS} FROM holds WHERE state <> 'refused' ORDER BY at, run, subject"
OF_RUN = f"SELECT {_COLUMNS} FROM holds WHERE state <> 'refused' AND run = :run ORDER BY at, subject"
REFUSED = f"SELECT {_COLUMNS} FROM holds WHERE state = 'refused' ORDER BY at, subject"
_IS_OVER = """
state IN ('held', 'claimed') AND until <= :now AND (
  EXISTS (SELECT 1 FROM runs r WHERE r.id = holds.run AND r.state = 'ended')
  OR NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = holds.run)
     AND NOT EXISTS (SELECT 1 FROM arrivals a WHERE a.run = holds.run AND a.fate = 'new'))
"""
ANY_OVER = f"SELECT 1 AS one FROM holds WHERE state = 'leaving' OR ({_IS_OVER}) LIMIT 1"
_LEAVE = f"UPDATE holds SET state = 'leaving' WHERE {_IS_OVER}"
_LEAVING = f"SELECT {_COLUMNS} FROM holds WHERE state = 'leaving' ORDER BY at, run, subject"
SETTLE = "UPDATE holds SET until = 0 WHERE run = :run"
LET_GO = "DELETE FROM holds WHERE subject = :subject AND holder = :holder"


def hold(connection: Connection, wanted: Hold) -> Hold | None:
    """Keep what the run has of that subject, or write it; None when a hold of that very name is on its way out."""
    if not connection.write(_KEEP, run=wanted.run, subject=wanted.subject, until=wanted.until) and not connection.write(
        _ADD, **columns(wanted)
    ):
        return None
    return value_of(Hold, connection.read(_ONE, run=wanted.run, subject=wanted.subject)[0])


def mark(connection: Connection, hold: Hold, state: HoldState) -> None:
    """What became of the claim; of those that were refused the last is kept for each subject."""
    if state == "refused":
        connection.write(_FORGET_REFUSED, subject=hold.subject)
    connection.write(_MARK, subject=hold.subject, holder=hold.holder, state=state)


def leaving(connection: Connection, now: float) -> tuple[Hold, ...]:
    """Those that nobody needs any more. From here on none of them is kept: who wants the subject again holds anew."""
    connection.write(_LEAVE, now=now)
    return tuple(value_of(Hold, row) for row in connection.read(_LEAVING))
