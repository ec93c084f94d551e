"""Values as rows and back: fields are columns, nested fields are JSON documents."""

import json
from typing import Any, TypeVar

from resolvent.adapters.journal.portable import Scalar
from resolvent.adapters.journal.store import Row
from resolvent.domain.decision import Decision, Question
from resolvent.domain.model import Value

V = TypeVar("V", bound=Value)


def document(content: Any) -> str:
    """JSON text, readable in the database as it is."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def columns(value: Value, *documents: str) -> dict[str, Scalar]:
    """One column per field; the named ones as documents."""
    fields = value.model_dump()
    for name in documents:
        fields[name] = None if fields[name] is None else document(fields[name])
    return fields


def value_of(model: type[V], row: Row, *documents: str) -> V:
    """The value whose `columns` these were."""
    parsed = {name: None if row[name] is None else json.loads(row[name]) for name in documents}
    return model.model_validate(row | parsed)


def decision_of(row: Row) -> Decision:
    """A row of the decisions table."""
    return Decision(
        run=row["run"],
        question=Question(
            key=row["key"],
            text=row["text"],
            choices=json.loads(row["choices"]),
            explained=json.loads(row["explained"]),
        ),
        answer=row["answer"],
        by=row["answered_by"],
        reason=row["reason"],
        asked_at=row["asked_at"],
        answered_at=row["answered_at"],
    )
