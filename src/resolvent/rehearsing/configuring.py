"""What the copy is configured by: the person's own files, what a stranger's may say, and where it is led."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resolvent.adapters.workspace.files import remove_tree
from resolvent.domain.policy import Policy
from resolvent.engine.prompts import OVERRIDES
from resolvent.errors import ConfigError
from resolvent.forge_server.tls import private_file
from resolvent.settings_layers import Key, Layer, Said, file_layer, flag_layer, merged
from resolvent.settings_sections import CheckSettings, Settings

FILE, LOCAL = "resolvent.toml", "resolvent.local.toml"
# All that a repository may say which nobody here has checked out: how it is checked, and what is good enough for it.
# Who is started, with which variables, and what a box shows and reaches is for the person to say.
TAKEN = ("checks", "policy")
# Letters of a text on one line; written down none of them takes more than six bytes.
_PIECE = 250
# What may be said in either section.
_TWICE = Policy.model_fields.keys() & CheckSettings.model_fields.keys()


def adopt(project: Path, checkout: Path | None, overrides: Sequence[str]) -> tuple[str, ...]:
    """Configure the copy as the person's checkout is, and by their flags; returns what was left out without one."""
    left = _bounded(project) if checkout is None else _taken_over(checkout, project)
    _write(project, [flag_layer(text, Settings) for text in overrides])
    return left


def configure(project: Path, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Lead the copy as these settings say, whatever else is said; whoever types a command in it is led there too."""
    where = "resolvent rehearse"
    _write(
        project,
        [
            {(section, name): Said(value, where, f"{section}.{name}") for name, value in said.items()}
            for section, said in settings.items()
        ],
    )
    excluded = project / ".git" / "info" / "exclude"
    excluded.parent.mkdir(exist_ok=True)
    excluded.write_text(f"/{LOCAL}\n", encoding="utf-8")


def _taken_over(checkout: Path, project: Path) -> tuple[str, ...]:
    """Its settings and prompts as they are now, committed or not: a run in it would obey them as well."""
    for name in (FILE, LOCAL):
        _remove(project, name)
        if (checkout / name).is_file():
            shutil.copyfile(checkout / name, project / name)
    _remove(project, OVERRIDES)
    prompts = [path for path in sorted((checkout / OVERRIDES).glob("*.md")) if path.is_file()]
    if prompts:
        (project / OVERRIDES).mkdir(parents=True)
    for path in prompts:
        shutil.copyfile(path, project / OVERRIDES / path.name)
    return ()


def _bounded(project: Path) -> tuple[str, ...]:
    """Leave of a stranger's configuration what it may say; returns the rest by name."""
    left = [name for name in (LOCAL, OVERRIDES) if _remove(project, name)]
    if (project / FILE).is_symlink():
        _remove(project, FILE)
        left.insert(0, FILE)
    try:
        said = file_layer(project / FILE, Settings)
        kept = _spelled({key: one for key, one in said.items() if key[0] in TAKEN})
        merged([kept], Settings)
    except ConfigError as error:
        hint = "clone it, mend that, and stand in it"
        raise ConfigError(f"the repository configures us wrongly: {error.message}", hint=hint) from error
    _remove(project, FILE)
    if kept:
        _save(project / FILE, kept)
    return (*(f"[{name}]" for name in dict.fromkeys(key[0] for key in said) if name not in TAKEN), *left)


def _remove(project: Path, name: str) -> bool:
    """Have it gone, and no link followed on the way there; False when there was nothing."""
    place = project
    for part in Path(name).parts:
        place /= part
        if place.is_symlink() or place.is_file():
            # A link in place of a directory leads out of the copy: it goes, and what it leads to stays.
            place.unlink()
            return True
    if not place.exists():
        return False
    remove_tree(place)
    return True


def _write(project: Path, layers: Sequence[Layer]) -> None:
    """Let the copy's own file say this as well; what it said before is weaker."""
    if (project / LOCAL).is_symlink():
        _remove(project, LOCAL)
    said = _spelled(file_layer(project / LOCAL, Settings))
    for layer in layers:
        said |= _spelled(layer)
    _save(project / LOCAL, said)


def _spelled(layer: Layer) -> Layer:
    """What can be said under two names under one: said twice in one file it would be refused."""
    return {("checks", *key[1:]) if key[0] == "policy" and key[1] in _TWICE else key: one for key, one in layer.items()}


# --- TOML


def _save(path: Path, layer: Layer) -> None:
    """A section for each table and a line for each key, because lines have a greatest length."""
    sections: dict[Key, list[str]] = {}
    for key, said in layer.items():
        sections.setdefault(key[:-1], []).append(f"{_string(key[-1])} = {_toml(said.value)}\n")
    written = [f"\n[{'.'.join(map(_string, name))}]\n{''.join(lines)}" for name, lines in sections.items()]
    private_file(path, f"# Written by `resolvent rehearse`.\n{''.join(written)}".encode())


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[\n" + "".join(f"  {_toml(item)},\n" for item in value) + "]" if value else "[]"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    # No key takes a table as its value: it is written as one so that whoever reads it says so.
    return "{}" if isinstance(value, Mapping) else str(value)


def _string(text: str) -> str:
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)] or [""]
    # JSON's escapes are TOML's, but for letters beyond the first plane and for DEL.
    said = [json.dumps(piece, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f") for piece in pieces]
    if len(said) == 1:
        return f'"{said[0]}"'
    # A backslash at the end of a line takes away the blanks that the next one begins with.
    return '"""' + "\\\n".join(re.sub(r"^ ", r"\\u0020", piece) for piece in said) + '"""'
