"""Prompts: found in the repository before the package, rendered strictly, outside text fenced line by line."""

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import ValidationError

from resolvent.domain.model import Value
from resolvent.errors import PromptError

OVERRIDES = ".resolvent/prompts"


class Prompt(Value):
    """One agent step: who plays it, how long it may take, and what it is asked."""

    role: Literal["writer", "reader", "arbiter"]
    effort: Literal["low", "medium", "high"] = "medium"
    timeout_s: float | None = None
    text: str


def collect(repository: Path | None = None) -> dict[str, str]:
    """Every prompt by its step's name; a file of the repository takes the place of ours."""
    found = {
        entry.name.removesuffix(".md"): entry.read_text(encoding="utf-8")
        for entry in sorted(resources.files("resolvent.prompts").iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".md")
    }
    for path in sorted((repository / OVERRIDES).glob("*.md")) if repository else ():
        if path.stem not in found:
            raise PromptError(f"{path}: no step is called {path.stem}", hint=f"one of: {', '.join(found)}")
        found[path.stem] = path.read_text(encoding="utf-8")
    for name, source in found.items():
        read(name, source)
    return found


def read(name: str, source: str) -> Prompt:
    """Split the front matter from the text."""
    head, separator, text = source.removeprefix("---\n").partition("\n---\n")
    if not source.startswith("---\n") or not separator:
        raise PromptError(f"prompt {name} has no front matter", hint="begin the file with ---, role: …, ---")
    fields = dict(line.split(":", 1) for line in head.splitlines() if ":" in line)
    try:
        return Prompt.model_validate({key.strip(): value.strip() for key, value in fields.items()} | {"text": text})
    except ValidationError as error:
        raise PromptError(f"prompt {name}: {error.errors()[0]['msg']} ({error.errors()[0]['loc']})") from error


def render(name: str, prompt: Prompt, inputs: Mapping[str, Any]) -> str:
    """Fill in the inputs; a name the prompt asks for and nobody gave is an error."""
    try:
        return _template(prompt.text).render(inputs)
    except TemplateError as error:
        raise PromptError(f"prompt {name} cannot be rendered: {error}", hint=f"look at prompts/{name}.md") from error


def quoted(text: str) -> str:
    """Text from outside, each line prefixed: no marker inside it stands on a line of its own."""
    return "\n".join(f"| {line}" for line in str(text).splitlines()) or "| (empty)"


@lru_cache(maxsize=64)
def _template(text: str) -> Template:
    return _environment().from_string(text)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["quoted"] = quoted
    return environment
