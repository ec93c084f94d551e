"""The one shape every value of the domain has: frozen, strict about unknown fields."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A fact that never changes after it was parsed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
