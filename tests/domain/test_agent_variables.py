"""[agents.NAME.variables]: values a person sets for an agent, and what must never be among them."""

from pathlib import Path

import pytest

from resolvent.errors import ConfigError, NotFound
from resolvent.settings import agent_named, load

AGENT = "[agents.mine]\nuse = 'acp'\ncommand = ['mine']\n"


def variables(directory: Path, text: str, *flags: str, local: str = "") -> dict[str, str]:
    (directory / "resolvent.toml").write_text(AGENT + text)
    if local:
        (directory / "resolvent.local.toml").write_text(local)
    return agent_named(load(directory, environ={"HOME": str(directory)}, overrides=flags), "mine").variables


def test_they_are_read_from_a_table_of_either_form(tmp_path: Path) -> None:
    assert variables(tmp_path, "variables = {A = 'x', B_2 = '{model}'}") == {"A": "x", "B_2": "{model}"}
    assert variables(tmp_path, "[agents.mine.variables]\nA = 'x'") == {"A": "x"}
    assert variables(tmp_path, "") == {}


def test_a_stronger_layer_changes_one_and_leaves_the_others(tmp_path: Path) -> None:
    weaker = "variables = {A = 'x', B = 'y'}"
    stronger = "[agents.mine.variables]\nB = 'z'"
    assert variables(tmp_path, weaker, local=stronger) == {"A": "x", "B": "z"}
    assert variables(tmp_path, weaker, "agents.mine.variables.C=w", local=stronger) == {"A": "x", "B": "z", "C": "w"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("variables = {GITHUB_TOKEN = 'x'}", "a forge token never enters"),
        ("variables = {HOME = '/root'}", "every agent is given its own"),
        ("variables = {RESOLVENT_STEP = 'x'}", "every agent is given its own"),
        ("variables = {'a b' = 'x'}", "must hold names of variables"),
        ("variables = {A = 1}", "variables.A must be a string"),
        ("variables = {A = {B = 'x'}}", "variables.A must be a string"),
        ("variables = 'A=x'", "must be a table"),
        ("variables = ['A']", "must be a table"),
        ("variables = {A = '{key}'}", "holds {key}, but agents.mine.key is not set"),
        ("variables = {A = 'x{endpoint}'}", "holds {endpoint}, but agents.mine.endpoint is not set"),
        ("variables = {TOKEN = 'x'}\n[forge]\ntoken = '$TOKEN'", "must not hold a variable with a secret of the forge"),
    ],
)
def test_what_must_not_be_there_is_refused_where_it_was_said(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        variables(tmp_path, text)
    assert why in caught.value.message
    assert caught.value.message.startswith(str(tmp_path / "resolvent.toml"))


def test_a_name_that_no_agent_has_is_answered_with_all_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "resolvent.toml").write_text(AGENT)
    with pytest.raises(NotFound, match=r"there are: claude, codex, .*mine"):
        agent_named(load(tmp_path, environ={"HOME": str(tmp_path)}), "nobody")
