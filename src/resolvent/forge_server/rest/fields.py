"""What a request's body says, read strictly: anything may stand in it, and none of it may be a fault of ours."""

import json
import re
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from resolvent.forge_server.door import Refusal

LONGEST = 65536
# Many times what any route has use for.
_MOST_BYTES = 8 << 20
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")


def invalid(resource: str, field: str, message: str = "", *, code: str = "") -> Refusal:
    """One field cannot be so; with a message the code is `custom`, as on GitHub."""
    error = {"resource": resource, "field": field, "code": code or ("custom" if message else "invalid")}
    return Refusal(422, "Validation Failed", errors=[error | ({"message": message} if message else {})])


class Fields:
    """The fields of one JSON object; what is absent or null is None."""

    def __init__(self, resource: str, given: dict[str, Any]) -> None:
        self.resource = resource
        self._given = given

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def text(self, name: str, *, longest: int = LONGEST) -> str | None:
        """A text."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._wrong(name, value, "string")
        return self._sendable(name, value, longest)

    def filled(self, name: str, *, longest: int = LONGEST) -> str:
        """A text that must be there and not blank."""
        value = self.text(name, longest=longest)
        if value is None:
            raise self._missing(name)
        if not value.strip():
            raise invalid(self.resource, name, f"{name} can't be blank")
        return value

    def choice(self, name: str, among: Sequence[str]) -> str | None:
        """One of some words."""
        value = self.text(name)
        if value is not None and value not in among:
            message = f"Invalid request.\n\n{value[:80]} is not a member of {json.dumps(list(among))}."
            raise Refusal(422, message, errors=[self._error(name, "invalid")])
        return value

    def plain(self, name: str) -> str | None:
        """A text, or a number or truth value as its text: `0`, `1`."""
        value = self._given.get(name)
        return str(int(value)) if isinstance(value, bool | int) else self.text(name)

    def flag(self, name: str) -> bool | None:
        """True or false."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, value, "boolean")
        return value

    def number(self, name: str) -> int | None:
        """A whole number of a size that databases have."""
        value = self._given.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 53:
            raise self._wrong(name, value, "integer")
        return value

    def texts(self, name: str) -> list[str] | None:
        """A list of texts that are not blank."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self._wrong(name, value, "array")
        if len(value) > 100:
            raise invalid(self.resource, name, f"{name} is too long (maximum is 100)")
        for one in value:
            if not isinstance(one, str) or not one.strip():
                raise self._wrong(name, one, "string")
            self._sendable(name, one, 1024)
        return list(dict.fromkeys(value))

    def names(self, name: str) -> list[str]:
        """A list of names, each plain or an object with a `name`."""
        value = self._given.get(name)
        if isinstance(value, list):
            plain = [one.get("name") if isinstance(one, dict) else one for one in value]
            return Fields(self.resource, {name: plain}).texts(name) or []
        return self.texts(name) or []

    def objects(self, name: str) -> list["Fields"]:
        """A list of objects."""
        value = self._given.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > 1000:
            raise self._wrong(name, value, "array")
        for one in value:
            if not isinstance(one, dict):
                raise self._wrong(name, one, "object")
        return [Fields(self.resource, one) for one in value]

    def inner(self, name: str) -> "Fields":
        """An object in the object; an absent one has no fields."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(name, value, "object")
        return Fields(self.resource, value or {})

    def _sendable(self, name: str, value: str, longest: int) -> str:
        if len(value) > longest:
            raise invalid(self.resource, name, f"{name} is too long (maximum is {longest} characters)")
        if _UNSENDABLE.search(value):
            raise invalid(self.resource, name, f"{name} contains characters that cannot be kept")
        return value

    def _error(self, name: str, code: str) -> dict[str, str]:
        return {"resource": self.resource, "field": name, "code": code}

    def _missing(self, name: str) -> Refusal:
        return Refusal(
            422, f'Invalid request.\n\n"{name}" wasn\'t supplied.', errors=[self._error(name, "missing_field")]
        )

    def _wrong(self, name: str, value: object, wanted: str) -> Refusal:
        shown = json.dumps(value, default=str)[:80]
        article = "an" if wanted[0] in "aeio" else "a"
        message = f"Invalid request.\n\nFor 'properties/{name}', {shown} is not {article} {wanted}."
        return Refusal(422, message, errors=[self._error(name, "invalid")])


async def parsed(request: Request) -> Any:
    """The JSON of the body; None when there is no body."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise Refusal(413, "Payload too large")
    if not body.strip():
        return None
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "Problems parsing JSON") from error


async def fields_of(request: Request, resource: str) -> Fields:
    """The fields of the body, which is an object or nothing at all."""
    said = await parsed(request)
    if said is not None and not isinstance(said, dict):
        raise Refusal(400, "Body should be a JSON object")
    return Fields(resource, said or {})
