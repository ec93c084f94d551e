"""A question a run has put to a person."""

from resolvent.domain.model import Value


class Question(Value):
    """`key` holds the occurrence: the same doubt at round 5 and at round 10 are two questions."""

    key: str
    text: str
    choices: tuple[str, ...]
    # The choices that nobody may take without saying why.
    explained: tuple[str, ...] = ()


class Choice(Value):
    """What a person answered, who it was, and why."""

    answer: str
    by: str = ""
    reason: str = ""
    at: float


class Decision(Value):
    """A question with its answer, or without one while it waits."""

    run: str
    question: Question
    answer: str | None = None
    by: str = ""
    reason: str = ""
    asked_at: float
    answered_at: float | None = None
