"""What an answer of GitHub must look like: githubkit's models, which are not imported before the first answer."""

from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from resolvent.adapters.forges.github_refusals import Answer
from resolvent.errors import ForgeDown

# The name of a model of githubkit, or one of our own where new kinds of answers must not be a fault.
Model = str | type[BaseModel]


class Models:
    """Parses answers, and keeps how."""

    def __init__(self) -> None:
        self._adapters: dict[tuple[Model, bool], TypeAdapter[Any]] = {}

    def parsed(self, model: Model, answer: Answer, *, many: bool = False, within: str = "") -> Any:
        """What an answer says; ForgeDown, with the field, when it has no sense."""
        adapter = self._adapter(model, many)
        try:
            if within:
                return adapter.validate_python(answer.said.get(within))
            return adapter.validate_json(answer.body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "its JSON"
            raise ForgeDown(f"GitHub did not answer {answer.path} with sense: {field}: {first['msg']}") from None

    def _adapter(self, model: Model, many: bool) -> TypeAdapter[Any]:
        """How to parse that; building one takes longer than using it."""
        if (model, many) not in self._adapters:
            from githubkit_schemas.latest import models

            shape: Any = getattr(models, model) if isinstance(model, str) else model
            self._adapters[model, many] = TypeAdapter(list[shape] if many else shape)
        return self._adapters[model, many]
