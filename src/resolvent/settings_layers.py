"""Files and flags become one table of settings that remembers where each key was said."""

import codecs
import difflib
import json
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from resolvent.errors import ConfigError

MAX_BYTES = 64 << 10
# The parser's time grows with the square of a dotted key, and a key cannot leave its line.
MAX_LINE = 2000

Key = tuple[str, ...]
Model = TypeVar("Model", bound=BaseModel)


class Said(NamedTuple):
    """One value with the file or flag that said it, under the name it was said by."""

    value: Any
    where: str
    spelled: str


Layer = dict[Key, Said]


class _Source(NamedTuple):
    where: str
    root: type[BaseModel]


def refuse(where: str, message: str) -> NoReturn:
    """Say what is wrong and where; values are never repeated, they may be secrets."""
    hint = f"$EDITOR {where}" if where.startswith("/") else "resolvent resolve --help"
    raise ConfigError(f"{where}: {message}", hint=hint, where=where)


def file_layer(path: Path, model: type[BaseModel]) -> Layer:
    """What a TOML file says; nothing when it is not there."""
    text = _read(path)
    if text is None:
        return {}
    where = str(path)
    try:
        table = tomllib.loads(text)
    except RecursionError:
        refuse(where, "tables and lists are nested too deeply")
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).rpartition(" (at ")
        lines = len(text.splitlines())
        place = place.replace("end of document", f"line {lines}, the end")
        refuse(where, f"is not TOML: {what[:200]} (at {place}")
    except ValueError:
        refuse(where, "holds a number with too many digits")
    return dict(_leaves(table, model, _Source(where, model)))


def flag_layer(text: str, model: type[BaseModel]) -> Layer:
    """What one `--set key.path=value` says; the value is TOML, or plain text where a string is wanted."""
    dotted, equals, raw = text.partition("=")
    dotted = dotted.strip()
    where = f"--set {_shown(dotted)}"
    if not equals or not dotted:
        refuse(where, "is written key.path=value, as in --set policy.merge=ask")
    table: dict[str, Any] = {}
    inner, parts = table, dotted.split(".")
    for part in parts[:-1]:
        inner = inner.setdefault(part, {})
    inner[parts[-1]] = _flag_value(raw, _field(model, tuple(parts)))
    return dict(_leaves(table, model, _Source(where, model)))


def merged(layers: Sequence[Layer], model: type[Model]) -> tuple[Model, Layer]:
    """Later layers win key by key; the whole is validated, and a fault names who said it."""
    said: Layer = {}
    for layer in layers:
        said |= layer
    table: dict[str, Any] = {}
    for key, one in said.items():
        inner = table
        for part in key[:-1]:
            inner = inner.setdefault(part, {})
        inner[key[-1]] = one.value
    try:
        # JSON, because there a list is as good as a tuple while "4" still is no number.
        return model.model_validate_json(json.dumps(table), strict=True), said
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
    # Outside of the handler: a traceback of the cause could show a secret.
    refuse(*blamed(tuple(str(part) for part in fault["loc"]), said, _expected(fault)))


def _read(path: Path) -> str | None:
    try:
        # Looked at before it is opened: a pipe in its place must not hang us.
        if not stat.S_ISREG(path.stat().st_mode):
            refuse(str(path), "is not a file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        refuse(str(path), f"cannot be read: {getattr(error, 'strerror', None) or error}")
    if len(raw) > MAX_BYTES:
        refuse(str(path), f"is longer than {MAX_BYTES} bytes")
    lines = []
    for number, line in enumerate(raw.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        if len(line) > MAX_LINE:
            refuse(str(path), f"holds a line of more than {MAX_LINE} bytes (at line {number})")
        try:
            lines.append(line.decode())
        except UnicodeDecodeError:
            refuse(str(path), f"is not UTF-8 (at line {number})")
    return "\n".join(lines)


def _leaves(
    table: Mapping[str, Any], model: type[BaseModel], source: _Source, *, at: Key = ()
) -> Iterator[tuple[Key, Said]]:
    for name, value in table.items():
        key = (*at, name)
        nested = _nested(model, name)
        known = name in model.model_fields and (nested is not None or bool(at))
        if not known and not (nested and isinstance(value, dict)):
            refuse(source.where, _unknown(model, key, source.root))
        elif nested is not None and isinstance(value, dict):
            yield from _leaves(value, nested, source, at=key)
        elif nested is None and _open_table(model, name) and isinstance(value, dict):
            for inner, one in value.items():
                leaf = (*key, inner)
                yield leaf, Said(_plain(one, where=source.where, key=leaf), source.where, _dotted(leaf))
        elif nested is None and not _open_table(model, name):
            yield key, Said(_plain(value, where=source.where, key=key), source.where, _dotted(key))
        else:
            refuse(source.where, f"{_dotted(key)} must be a table, as in [{_dotted(key)}]")


def _nested(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    if name in model.model_fields:
        kind = model.model_fields[name].annotation
        return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    if model.model_config.get("extra") == "allow":
        inner: type[BaseModel] = get_args(model.__annotations__["__pydantic_extra__"])[1]
        return inner
    return None


def _open_table(model: type[BaseModel], name: str) -> bool:
    """Its names are a person's own, so that each of them is a key by itself."""
    return get_origin(model.model_fields[name].annotation) is dict


def _field(model: type[BaseModel], key: Key) -> FieldInfo | None:
    for part in key[:-1]:
        nested = _nested(model, part)
        if nested is None:
            return None
        model = nested
    return model.model_fields.get(key[-1])


def _flag_value(raw: str, field: FieldInfo | None) -> Any:
    try:
        value = None if "\n" in raw else tomllib.loads(f"value = {raw}").get("value")
    except (ValueError, RecursionError):
        value = None
    wants_text = field is not None and field.annotation is str
    return raw if value is None or (wants_text and not isinstance(value, str)) else value


def _plain(value: Any, *, where: str, key: Key) -> Any:
    if isinstance(value, list):
        return [{} if isinstance(item, list) else _plain(item, where=where, key=key) for item in value]
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
            refuse(where, f"{_dotted(key)} holds a character that no text may hold")
        return value
    if isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    # Dates, tables and giants: nothing that any key takes, so the validation says what it does take.
    return {}


def _unknown(model: type[BaseModel], key: Key, root: type[BaseModel]) -> str:
    name, at = key[-1], key[:-1]
    here = [field for field in model.model_fields if at or _nested(model, field)]
    elsewhere = {field: section for section in root.model_fields for field in _fields_of(root, section)}
    close = difflib.get_close_matches(name, here, n=1) or [one for one in elsewhere if one == name]
    guess = (
        f"; did you mean {_dotted((*(at if close[0] in here else (elsewhere[close[0]],)), close[0]))}?" if close else ""
    )
    return f"{_dotted(key)} is not a setting{guess}"


def _fields_of(root: type[BaseModel], section: str) -> Iterable[str]:
    nested = _nested(root, section)
    return nested.model_fields if nested else ()


def blamed(key: Key, said: Layer, message: str) -> tuple[str, str]:
    """Who said this key, or the nearest to it, and the message with the name it was said by."""
    for length in range(len(key), 0, -1):
        near = key[:length]
        if near in said:
            items = "".join(f"[{part}]" for part in key[length:])
            return said[near].where, f"{said[near].spelled}{items} {message}"
        for other, one in said.items():
            if other[:length] == near:
                return one.where, f"{_dotted(key)} {message}"
    return "settings", f"{_dotted(key)} {message}"


_EXPECTED = {
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "tuple_type": 'must be a list, as in ["one", "two"]',
}


def _expected(fault: Mapping[str, Any]) -> str:
    context = fault.get("ctx") or {}
    if fault["type"] == "value_error":
        return str(context["error"])
    if fault["type"] == "literal_error":
        return f"must be {context['expected']}"
    return _EXPECTED.get(fault["type"]) or re.sub(r"^Input should be", "must be", str(fault["msg"]))


def _dotted(key: Key) -> str:
    return ".".join(_shown(part) for part in key)


def _shown(name: str) -> str:
    """A name as it can be printed: hostile ones are quoted and cut."""
    return name if re.fullmatch(r"[\w.:-]{1,80}", name) else json.dumps(name[:80])
