"""The fewest parts that still do the job: found by asking, never twice, and never more often than allowed."""

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolvent.domain.patch import fewest

Parts = tuple[int, ...]
COUNTS = st.integers(0, 24)
SEEDS = st.integers(0, 10_000)


class Asked:
    """Somebody who answers, and remembers what he was asked."""

    def __init__(self, answer: Callable[[Parts], bool]) -> None:
        self._answer = answer
        self.questions: list[Parts] = []

    async def __call__(self, parts: Parts) -> bool:
        self.questions.append(parts)
        return self._answer(parts)


def needs(wanted: set[int]) -> Callable[[Parts], bool]:
    """Every one of these is needed, and nothing else: the more the better."""
    return lambda parts: wanted <= set(parts)


def whims(seed: int, *, count: int, share: float = 0.3) -> Callable[[Parts], bool]:
    """An answer without rhyme or reason that stays the same; all parts together do the job."""
    return lambda parts: len(parts) == count or random.Random(f"{seed}:{parts}").random() < share


def found(answer: Callable[[Parts], bool], *, count: int, most: int = 10_000) -> tuple[Parts, Asked]:
    asked = Asked(answer)
    return asyncio.run(fewest(range(count), asked, most=most)), asked


@given(st.data())
def test_where_more_is_never_worse_exactly_the_needed_ones_are_left(choice: st.DataObject) -> None:
    count = choice.draw(COUNTS)
    wanted = choice.draw(st.sets(st.integers(0, count - 1))) if count else set()
    kept, asked = found(needs(wanted), count=count)
    assert kept == tuple(sorted(wanted))
    assert len(asked.questions) <= count**2 + 3 * count


@given(COUNTS, SEEDS)
def test_whatever_the_answers_what_is_left_does_the_job_and_no_one_part_of_it_can_go(count: int, seed: int) -> None:
    answer = whims(seed, count=count)
    kept, asked = found(answer, count=count)
    assert answer(kept)
    assert not any(answer(kept[:place] + kept[place + 1 :]) for place in range(len(kept)))
    assert len(set(asked.questions)) == len(asked.questions)
    assert all(question == tuple(sorted(set(question))) for question in asked.questions)
    assert tuple(range(count)) not in asked.questions


@given(COUNTS, SEEDS, st.integers(-1, 40))
def test_when_no_question_is_left_the_smallest_that_did_the_job_is_the_answer(count: int, seed: int, most: int) -> None:
    answer = whims(seed, count=count)
    kept, asked = found(answer, count=count, most=most)
    assert len(asked.questions) <= max(most, 0)
    assert len(kept) == min([count, *(len(question) for question in asked.questions if answer(question))])
    assert answer(kept)
    same, again = found(answer, count=count, most=most)
    assert (kept, asked.questions) == (same, again.questions)
    whole = found(answer, count=count)[1].questions
    assert asked.questions == whole[: max(most, 0)]


@pytest.mark.parametrize(("count", "questions"), [(0, 0), (1, 1)])
def test_of_nothing_nothing_is_asked_and_of_one_part_whether_none_would_do(count: int, questions: int) -> None:
    for enough in (True, False):
        kept, asked = found(lambda parts, enough=enough: enough or len(parts) == count, count=count)  # type: ignore[misc]
        assert len(asked.questions) == questions
        assert kept == (() if enough else tuple(range(count)))


def test_one_needed_part_of_many_is_found_by_halves() -> None:
    kept, asked = found(needs({700}), count=1024)
    assert kept == (700,)
    assert len(asked.questions) <= 2 * 10 + 1
