"""What tokens cost, for programs that tell how many they used and not how much that was."""

from collections.abc import Mapping

from pydantic import Field

from resolvent.domain.job import Usage
from resolvent.domain.model import Value

MILLION = 1_000_000


class Price(Value):
    """Dollars for a million tokens; cached input is part of the input and cheaper."""

    input: float = Field(ge=0, allow_inf_nan=False)
    cached: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)


# Public list prices; the longest name that a model's begins with counts. Anybody's own are set under [prices].
PRICES: Mapping[str, Price] = {
    "gpt-5": Price(input=1.25, cached=0.125, output=10.0),
    "gpt-5-mini": Price(input=0.25, cached=0.025, output=2.0),
    "gpt-5-nano": Price(input=0.05, cached=0.005, output=0.4),
    "gpt-5-pro": Price(input=15.0, cached=15.0, output=120.0),
    "gpt-4.1": Price(input=2.0, cached=0.5, output=8.0),
    "o3": Price(input=2.0, cached=0.5, output=8.0),
    "o4-mini": Price(input=1.1, cached=0.275, output=4.4),
    "claude-opus": Price(input=5.0, cached=0.5, output=25.0),
    "claude-sonnet": Price(input=3.0, cached=0.3, output=15.0),
    "claude-haiku": Price(input=1.0, cached=0.1, output=5.0),
    "gemini-2.5-pro": Price(input=1.25, cached=0.31, output=10.0),
    "gemini-2.5-flash": Price(input=0.3, cached=0.075, output=2.5),
}


def price_of(model: str, own: Mapping[str, Price]) -> Price | None:
    """What a model's tokens cost; a person's own price before the public one. None when nobody knows."""
    for table in (own, PRICES):
        names = [name for name in table if model == name or model.startswith((f"{name}-", f"{name}."))]
        if names:
            return table[max(names, key=len)]
    return None


def priced(usage: Usage, price: Price | None) -> Usage:
    """The usage with what it cost; as it is when it says so itself, or when nobody knows."""
    if usage.usd or price is None:
        return usage
    fresh = max(0, usage.input_tokens - usage.cached_tokens)
    parts = (fresh * price.input, usage.cached_tokens * price.cached, usage.output_tokens * price.output)
    return usage.model_copy(update={"usd": sum(parts) / MILLION})
