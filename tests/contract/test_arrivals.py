"""Arrivals on the record, in both databases: first writer wins, and nothing is told twice."""

from collections.abc import AsyncIterator, Callable

import pytest
from tests.contract.journal_stage import HOSTILE, a_run

from resolvent.adapters.journal import connect
from resolvent.adapters.journal.arrivals import REMEMBERED_S, StoredArrivals
from resolvent.adapters.journal.journal import StoredJournal
from resolvent.domain.arrival import Arrival, Hold, Kind
from resolvent.domain.subject import Comment


class Shelf:
    """A journal with its arrivals, and a clock that is set by hand."""

    def __init__(self, journal: StoredJournal, clock: Callable[[], float]) -> None:
        self.journal = journal
        self.arrivals = StoredArrivals(journal.store, clock)


NOW = [1000.0]


@pytest.fixture
async def shelf(store_url: str) -> AsyncIterator[Shelf]:
    NOW[0] = 1000.0
    journal = await connect(store_url, now=lambda: NOW[0])
    yield Shelf(journal, lambda: NOW[0])
    await journal.close()


def labelled(at: float = 10.0, *, run: str = "r1", kind: Kind = "labelled") -> Arrival:
    return Arrival(kind=kind, subject="issue-7", at=at, run=run)


async def test_what_was_recorded_comes_back_as_it_was(shelf: Shelf) -> None:
    said = Comment(id="9", author=HOSTILE, body="", url="u", target="issue-7", created_at=1.5)
    told = Arrival(
        kind="mentioned", subject="issue-7", by=HOSTILE, bot=True, at=1.5, wish="design", comment=said, run="r1"
    )
    assert await shelf.arrivals.record([told], delivery="d-1") == await shelf.arrivals.pending()
    (kept,) = await shelf.arrivals.pending()
    assert kept == told.model_copy(update={"delivery": "d-1", "seen_at": 1000.0})


async def test_the_same_thing_told_again_in_any_way_is_no_news(shelf: Shelf) -> None:
    def told(at: float, run: str) -> Arrival:
        said = Comment(id="9", author="ada", body="", url="u", target="issue-7")
        return Arrival(kind="mentioned", subject="issue-7", at=at, comment=said, run=run)

    assert len(await shelf.arrivals.record([told(1, "r1"), told(2, "r2")]) or ()) == 1
    assert await shelf.arrivals.record([told(1, "r3")], delivery="d-1") == ()
    assert await shelf.arrivals.record([labelled()], delivery="d-1") is None
    assert [one.run for one in await shelf.arrivals.pending()] == ["r1"]


async def test_a_label_is_news_when_it_was_away_or_a_webhook_says_that_it_is_given_again(shelf: Shelf) -> None:
    arrivals = shelf.arrivals
    assert len(await arrivals.record([labelled(10)]) or ()) == 1
    assert await arrivals.record([labelled(20)]) == ()
    assert await arrivals.record([labelled(10)], delivery="late") == ()
    assert len(await arrivals.record([labelled(30, run="r2")], delivery="again") or ()) == 1
    await arrivals.unlabel("issue-7", at=29)
    assert await arrivals.record([labelled(40)]) == ()
    await arrivals.unlabel("issue-7", at=30)
    assert len(await arrivals.record([labelled(50, run="r3")]) or ()) == 1
    await arrivals.record([labelled(60, kind="closed")])
    assert len(await arrivals.record([labelled(70, run="r4", kind="reopened")], delivery="back") or ()) == 1


async def test_a_delivery_is_forgotten_when_nobody_will_repeat_it(shelf: Shelf) -> None:
    await shelf.arrivals.record([], delivery="d-1")
    assert await shelf.arrivals.record([], delivery="d-1") is None
    NOW[0] += REMEMBERED_S + 1
    await shelf.arrivals.record([], delivery="d-2")
    assert await shelf.arrivals.record([], delivery="d-1") == ()


async def test_the_first_word_on_what_became_of_it_stays(shelf: Shelf) -> None:
    (kept,) = await shelf.arrivals.record([labelled()]) or ()
    assert (await shelf.arrivals.settle(kept, "taken", reason="r1")).fate == "taken"
    assert (await shelf.arrivals.settle(kept, "refused", reason="late")).reason == "r1"
    assert await shelf.arrivals.pending() == ()
    assert await shelf.arrivals.cause("r1") == (await shelf.arrivals.with_fate("taken"))[0]
    assert await shelf.arrivals.cause("r2") is None


async def test_a_cursor_goes_forward_only(shelf: Shelf) -> None:
    assert await shelf.arrivals.cursor("issues") is None
    for instant in (10.5, 30.25, 20.0):
        await shelf.arrivals.advance("issues", instant)
    assert await shelf.arrivals.cursor("issues") == 30.25


async def test_a_hold_is_over_with_its_run_or_when_no_run_came(shelf: Shelf) -> None:
    journal, arrivals = shelf.journal, shelf.arrivals
    (asking,) = await arrivals.record([labelled(run="r3")]) or ()
    for run in ("r1", "r2", "r3", "r4"):
        await journal.hold(Hold(run=run, subject="issue-7", holder=f"host.{run}", at=1.0))
    kept = await journal.hold(Hold(run="r1", subject="issue-7", holder="another", at=2.0))
    assert kept is not None and kept.holder == "host.r1"
    await journal.add_run(a_run("r1"), subjects=["issue-7"])
    await journal.add_run(a_run("r2"), subjects=[])
    await journal.end_run("r2", outcome="declined", reason="", result={})
    over = await journal.holds_over()
    assert [hold.run for hold in over] == ["r2", "r4"]
    await arrivals.settle(asking, "repeated")
    await journal.let_go(over[0])
    assert [hold.run for hold in await journal.holds_over()] == ["r3", "r4"]
    assert await arrivals.at_work("issue-7") == "r1"
    assert await arrivals.at_work("issue-8") == ""


async def test_the_first_reason_to_cancel_stays_until_the_run_is_tried_again(shelf: Shelf) -> None:
    journal = shelf.journal
    await journal.add_run(a_run("r1"), subjects=["issue-7"])
    await journal.ask_to_cancel("r1", reason="it was edited\nTo start again, …")
    await journal.ask_to_cancel("r1", reason="it was closed")
    assert (await journal.run("r1")).called_off == "it was edited\nTo start again, …"
    await journal.end_run("r1", outcome="cancelled", reason="it was edited", result={})
    await journal.reopen("r1", subjects=["issue-7"])
    assert (await journal.run("r1")).called_off == ""
    await journal.ask_to_cancel("r1")
    await journal.ask_to_cancel("r1", reason="too late to say why")
    assert (await journal.run("r1")).called_off == ""
