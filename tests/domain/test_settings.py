"""Settings: layers, errors that say who said what, secrets that are never repeated, and a private state directory."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from resolvent.domain.policy import Policy
from resolvent.domain.record import AgentChoice
from resolvent.errors import ConfigError
from resolvent.settings import (
    agent_choice,
    agent_environment,
    forge_secrets,
    load,
    state_directory,
    store_url,
    template,
)
from resolvent.settings_sections import Settings

Write = Callable[..., Path]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repository").mkdir()
    return tmp_path / "repository"


def loaded(repository: Path, text: str | bytes, *overrides: str, environ: dict[str, str] | None = None) -> Settings:
    (repository / "resolvent.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(repository, environ=environ or {}, overrides=overrides)


def refusal(repository: Path, text: str | bytes, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(repository, text, *overrides)
    assert caught.value.hint
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.spec("C1")
def test_without_any_file_every_default_holds(repository: Path, home: dict[str, str]) -> None:
    found = load(repository, environ=home)
    assert found == Settings(directory=repository)
    assert (found.agents.writer, found.agents.reader, found.forge.kind, found.limits.agents) == (
        "claude",
        "codex",
        "local",
        4,
    )
    assert found.policy == Policy()


@pytest.mark.spec("C2")
def test_each_layer_wins_over_the_one_before_key_by_key(repository: Path, home: dict[str, str]) -> None:
    user = Path(home["HOME"]) / ".config/resolvent"
    user.mkdir(parents=True)
    (user / "config.toml").write_text("[limits]\nagents = 11\nchecks = 11\nruns = 11\ncost_usd = 11\n")
    (repository / "resolvent.local.toml").write_text("[limits]\nruns = 33\ncost_usd = 33\n")
    found = loaded(
        repository, "[limits]\nchecks = 22\nruns = 22\ncost_usd = 22\n", "limits.cost_usd=44", environ=home
    ).limits
    assert (found.agents, found.checks, found.runs, found.cost_usd) == (11, 22, 33, 44.0)


def test_the_user_file_is_found_where_xdg_says(repository: Path, home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "xdg/resolvent").mkdir(parents=True)
    (tmp_path / "xdg/resolvent/config.toml").write_text('[policy]\nmerge = "ask"\n')
    assert load(repository, environ=home | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}).policy.merge == "ask"
    assert load(repository, environ=home | {"XDG_CONFIG_HOME": "xdg"}).policy.merge == "never"


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[polcy]\nmerge = 'ask'", "polcy is not a setting; did you mean policy?"),
        ("[policy]\nmerg = 'ask'", "policy.merg is not a setting; did you mean policy.merge?"),
        ("max_fix_rounds = 3", "max_fix_rounds is not a setting; did you mean policy.max_fix_rounds?"),
        (
            "[limits]\nmax_fix_rounds = 3",
            "limits.max_fix_rounds is not a setting; did you mean policy.max_fix_rounds?",
        ),
        ("[agents]\nwritter = 'claude'", "agents.writter is not a setting; did you mean agents.writer?"),
        ("[agents.mine]\ncomand = ['a']", "agents.mine.comand is not a setting; did you mean agents.mine.command?"),
        ("directory = '/elsewhere'", "directory is not a setting"),
        ("[zzz]\nx = 1", "zzz is not a setting"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_file_key_and_the_likely_one(
    repository: Path, text: str, said: str
) -> None:
    assert refusal(repository, text) == f"{repository}/resolvent.toml: {said}"


@pytest.mark.spec("C4")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policy = 3", "policy must be a table, as in [policy]"),
        ("[[policy]]\nmerge = 'ask'", "policy must be a table, as in [policy]"),
        ("[policy]\nmerge = 'maybe'", "policy.merge must be 'never', 'ask' or 'auto'"),
        ("[policy]\nmax_fix_rounds = '3'", "policy.max_fix_rounds must be a whole number"),
        ("[policy]\nmax_fix_rounds = true", "policy.max_fix_rounds must be a whole number"),
        ("[policy]\nmax_fix_rounds = -1", "policy.max_fix_rounds must be greater than or equal to 0"),
        ("[policy]\nrequire_reproducer = 'yes'", "policy.require_reproducer must be true or false"),
        ("[checks]\ntest = 3", "checks.test must be a string"),
        ("[checks]\ntest = 1979-05-27", "checks.test must be a string"),
        ("[checks.test]\nunit = 'make'", "checks.test must be a string"),
        ("[forge]\ntrusted_logins = 'alice'", 'forge.trusted_logins must be a list, as in ["one", "two"]'),
        ("[forge]\ntrusted_logins = ['alice', 7]", "forge.trusted_logins[1] must be a string"),
        ("[forge]\ntrusted_logins = [['alice']]", "forge.trusted_logins[0] must be a string"),
        ("[forge]\nrepo = 'widgets'", 'forge.repo must be "owner/name"'),
        ("[agents.writer]\nuse = 'command'", "agents.writer must be a string"),
        ("[agents]\nwriter = 'cluade'", "agents.writer names 'cluade', which is no agent; did you mean claude?"),
        ("[agents]\nreader = ''", "agents.reader names no agent; there are: claude, codex"),
        ("[agents.mine]\nuse = 'command'", 'agents.mine.command must name a program, as in ["python3", "my_agent.py"]'),
        ("[agents.mine]\ncommand = ['']", 'agents.mine.command must name a program, as in ["python3", "my_agent.py"]'),
        ("[agents.'../x']\ncommand = ['a']", 'agents."../x" is not a name for an agent'),
        ("[limits]\nagents = 0", "limits.agents must be greater than or equal to 1"),
        ("[limits]\nagents = 0xffffffffffffffffffff", "limits.agents must be a whole number"),
        ("[limits]\ncost_usd = nan", "limits.cost_usd must be a finite number"),
        ("[sandbox]\nmemory = 'lots'", 'sandbox.memory must be a size: "512M", "4G" or a number of bytes'),
    ],
)
def test_a_wrong_value_names_file_key_and_what_is_expected(repository: Path, text: str, said: str) -> None:
    assert refusal(repository, text) == f"{repository}/resolvent.toml: {said}"


def test_a_wrong_value_is_blamed_on_the_layer_that_said_it(repository: Path, home: dict[str, str]) -> None:
    (repository / "resolvent.local.toml").write_text("[limits]\nagents = 'many'\n")
    assert refusal(repository, "[limits]\nagents = 2\n").startswith(f"{repository}/resolvent.local.toml: limits.agents")
    (repository / "resolvent.local.toml").unlink()
    assert refusal(repository, "", "limits.agents=many").startswith("--set limits.agents: limits.agents must be")


@pytest.mark.spec("C5")
@pytest.mark.parametrize(
    ("said", "seconds"), [('"90s"', 90), ('"30m"', 1800), ('"2h"', 7200), ('"1.5d"', 129600), ("45", 45), ("0.5", 0.5)]
)
def test_a_duration_has_a_unit_or_is_in_seconds(repository: Path, said: str, seconds: float) -> None:
    found = loaded(repository, f"[sandbox]\nwall = {said}\n[checks]\nci_wait = {said}\n")
    assert found.sandbox.wall == found.policy.ci_wait == seconds


@pytest.mark.parametrize("said", ['"30"', '"m"', '"-5m"', '"1 h"', "true", "[]", '"٣m"', "0", "-1", "inf", '"31d"'])
def test_what_is_no_duration_is_refused(repository: Path, said: str) -> None:
    assert "sandbox.wall must be" in refusal(repository, f"[sandbox]\nwall = {said}\n")


def test_how_long_ci_is_waited_for_is_one_setting_under_both_names(repository: Path) -> None:
    assert loaded(repository, '[policy]\nci_wait = "5m"\n').policy.ci_wait == 300
    assert loaded(repository, "[checks]\nci_required = false\n").policy.ci_required is False
    assert loaded(repository, '[policy]\nci_wait = "5m"\n', "checks.ci_wait=0").policy.ci_wait == 0
    assert "are the same setting" in refusal(repository, "[checks]\nci_wait = 1\n[policy]\nci_wait = 2\n")
    assert "policy.ci_wait must be a duration" in refusal(repository, '[policy]\nci_wait = "soon"\n')


@pytest.mark.spec("C6")
@pytest.mark.parametrize(
    ("override", "check"),
    [
        ("policy.merge=ask", lambda found: found.policy.merge == "ask"),
        ('policy.merge="ask"', lambda found: found.policy.merge == "ask"),
        ("checks.test=true", lambda found: found.checks.commands == {"test": "true"}),
        ("checks.test=make test", lambda found: found.checks.test == "make test"),
        ("checks.test=a = b", lambda found: found.checks.test == "a = b"),
        ("limits.agents=2", lambda found: found.limits.agents == 2),
        ("sandbox.wall=30m", lambda found: found.sandbox.wall == 1800),
        ('forge.trusted_logins=["a", "b"]', lambda found: found.forge.trusted_logins == ("a", "b")),
        ('agents.mine.command=["a"]', lambda found: found.agents.defined["mine"].command == ("a",)),
    ],
)
def test_a_flag_sets_one_key(repository: Path, override: str, check: Callable[[Settings], bool]) -> None:
    assert check(loaded(repository, "", override))


@pytest.mark.parametrize(
    "override", ["policy.merge", "=ask", "policy=ask", "policy.merg=ask", "a.b.c=1", "checks.test=\udc80", "\x1b[2J=1"]
)
def test_a_flag_that_says_nothing_sensible_is_refused(repository: Path, override: str) -> None:
    said = refusal(repository, "", override)
    assert said.startswith("--set ")
    assert said.isprintable()


@pytest.mark.spec("C7")
@pytest.mark.parametrize("key", ["forge.token", "store.url"])
def test_a_secret_that_is_written_down_is_refused_and_never_repeated(repository: Path, key: str) -> None:
    section, name = key.split(".")
    for secret in ("ghp_s3cret", "postgresql://me:s3cret@host/db", "postgresql://host/db?password=s3cret"):
        for where in ([f"[{section}]\n{name} = '{secret}'\n"], ["", f"{key}={secret}"]):
            with pytest.raises(ConfigError) as caught:
                loaded(repository, *where)
            told: BaseException | None = caught.value
            while told:
                assert "s3cret" not in f"{told} {told!r} {getattr(told, 'hint', '')} {getattr(told, 'details', '')}"
                told = told.__cause__ or told.__context__


@pytest.mark.spec("C8")
def test_an_unset_variable_matters_only_when_its_secret_is_used(repository: Path) -> None:
    found = loaded(repository, '[forge]\ntoken = "$MY_TOKEN"\n[store]\nurl = "$MY_STORE"\n')
    with pytest.raises(ConfigError, match=r"forge\.token is read from \$MY_TOKEN, which is not set"):
        forge_secrets(found, {})
    with pytest.raises(ConfigError, match=r"store\.url is read from \$MY_STORE"):
        store_url(found, state=repository, environ={"MY_STORE": ""})
    assert forge_secrets(found, {"MY_TOKEN": "abc"}).token == "abc"
    assert store_url(found, state=repository, environ={"MY_STORE": "postgresql://a:b@c/d"}) == "postgresql://a:b@c/d"


def test_without_a_token_there_is_none_and_the_store_is_a_file_of_ours(repository: Path) -> None:
    found = loaded(repository, "")
    assert forge_secrets(found, {"GITHUB_TOKEN": "abc"}).token == ""
    assert store_url(found, state=repository, environ={}) == f"sqlite:///{repository}/resolvent.db"


HOSTILE = {
    "huge": b"# " + b"x" * (1 << 20),
    "long line": b"x = '" + b"y" * 3000 + b"'",
    "deep lists": b"x = " + b"[\n" * 20_000,
    "deep tables": (b"[" + b"a." * 980 + b"a]\n") * 30,
    "wide dotted key": (b"a." * 990 + b"a = 1\n") * 30,
    "long number": b"[limits]\nagents = " + b"9" * 1900 + b"\n",
    "many digits": b"x = [\n" + b"9" * 1900 + b",\n]",
    "latin-1": '[forge]\nkind = "café"'.encode("latin-1"),
    "utf-16": '[forge]\nkind = "local"'.encode("utf-16"),
    "NUL": b"[checks]\ntest = 'a\0b'",
    "escaped NUL": b'[checks]\ntest = "a\\u0000b"',
    "cut": b'[checks]\ntest = "abc',
    "twice": b"[checks]\n[checks]\n",
    "binary": bytes(range(256)),
}


@pytest.mark.spec("C9")
@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_toml_is_a_clear_error(repository: Path, text: bytes) -> None:
    said = refusal(repository, text)
    assert said.startswith(f"{repository}/resolvent.toml: ")
    assert len(said) < 600


@pytest.mark.parametrize(
    ("text", "line"),
    [("[policy]\nmerge = \n", 2), ("a = 1\n\nb = 'x\n", 3), ('a = """\n\n', 2), (b"a = 1\nb = '\xff'\n", 2)],
)
def test_what_is_not_toml_names_the_line(repository: Path, text: str | bytes, line: int) -> None:
    assert f"at line {line}" in refusal(repository, text)


def test_windows_line_ends_and_a_byte_order_mark_are_fine(repository: Path) -> None:
    assert loaded(repository, b"\xef\xbb\xbf[policy]\r\nmerge = 'ask'\r\n").policy.merge == "ask"


def test_a_directory_or_a_pipe_in_place_of_the_file_is_an_error_and_hangs_nothing(repository: Path) -> None:
    (repository / "resolvent.toml").mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        load(repository, environ={})
    (repository / "resolvent.toml").rmdir()
    os.mkfifo(repository / "resolvent.toml")
    with pytest.raises(ConfigError, match="is not a file"):
        load(repository, environ={})


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(
            st.tuples(
                st.sampled_from(["[policy]", "[agents]", "[agents.mine]", "[forge]", "[limits]", "[checks]"]),
                st.sampled_from(["merge", "writer", "use", "command", "env", "token", "agents", "ci_wait", "x"]),
                st.sampled_from(["1", "true", "'ask'", "'$A'", "[]", "['a']", "{}", "[{}]", "nan", "1979-05-27", "''"]),
            )
        ).map(lambda lines: "\n".join(f"{head}\n{key} = {value}" for head, key, value in lines).encode()),
    )
)
@example(b"[agents.mine]\nuse = 'acp'")
def test_whatever_the_file_holds_it_loads_or_is_a_config_error(repository: Path, text: bytes) -> None:
    try:
        found = loaded(repository, text)
    except ConfigError as error:
        assert str(error).startswith(str(repository))
    else:
        for role in ("writer", "reader", "arbiter"):
            assert isinstance(agent_choice(found, role), AgentChoice)


@pytest.mark.spec("C10")
def test_the_template_shows_every_setting_and_changes_none(repository: Path) -> None:
    assert loaded(repository, template()) == Settings(directory=repository)
    shown = loaded(repository, re.sub(r"^#(?=[a-z_]+ =)", "", template(), flags=re.M))
    assert shown == Settings(directory=repository)
    section, names = "", set()
    for line in template().splitlines():
        section = found[1] if (found := re.match(r"(?:# )?\[(.*)\]", line)) else section
        names |= {f"{section}.{found[1]}"} if (found := re.match(r"#? ?([a-z_]+) =", line)) else set()
    every = {
        f"{section}.{name}"
        for section, field in Settings.model_fields.items()
        if section != "directory"
        for name in field.default.__class__.model_fields
    } - {"policy.ci_required", "policy.ci_wait"}
    assert every <= names
    assert {f"agents.mine.{name}" for name in ("use", "command", "env", "model", "wall", "idle", "output")} <= names


def test_the_examples_of_the_template_are_themselves_valid(repository: Path) -> None:
    text = re.sub(r"^# ?(?=[a-z_]+ = |\[agents|\[prices)", "", template(), flags=re.M)
    found = loaded(repository, text)
    assert found.forge.token == "$GITHUB_TOKEN"
    assert found.sandbox.memory == 4 << 30
    assert found.agents.defined["mine"].idle == 1200
    assert found.agents.defined["claude"].fallback == "codex"
    assert found.prices.own["gpt-5"].output == 10.0


@pytest.mark.spec("A1")
def test_a_role_is_a_name_with_an_optional_model(repository: Path) -> None:
    text = """
        agents.writer = "mine:big:7b"
        agents.reader = "mine"
        agents.mine = {command = ["agent"], model = "small", wall = "10m", idle = "60s", output = "1M", env = ["KEY"]}
    """
    found = loaded(repository, text)
    writer, reader = agent_choice(found, "writer"), agent_choice(found, "reader")
    assert (writer.name, writer.use, writer.model) == ("mine", "command", "big:7b")
    assert (reader.model, reader.command, reader.env) == ("small", ("agent",), ("KEY",))
    assert (reader.limits.wall_s, reader.limits.idle_s, reader.limits.output_bytes) == (600, 60, 1 << 20)
    assert agent_choice(found, "arbiter") == reader


def test_built_in_agents_need_no_definition_and_may_be_changed(repository: Path) -> None:
    assert agent_choice(loaded(repository, ""), "writer").use == "claude"
    changed = agent_choice(loaded(repository, "[agents.claude]\nenv = ['KEY']\n[sandbox]\nwall = '1h'\n"), "writer")
    assert (changed.use, changed.env, changed.limits.wall_s) == ("claude", ("KEY",), 3600)


@pytest.mark.spec("A2")
def test_a_program_of_the_repository_is_started_from_the_repository_not_from_the_branch(repository: Path) -> None:
    (repository / "tools").mkdir()
    (repository / "tools/agent.py").touch()
    text = (
        '[agents]\nwriter = "one"\nreader = "two"\n[agents.one]\ncommand = ["./run", "a/b", "tools/agent.py", "x.py"]\n'
    )
    found = loaded(repository, text + '[agents.two]\ncommand = ["python3", "/abs/agent.py"]\n')
    assert agent_choice(found, "writer").command == (
        f"{repository}/run",
        "a/b",
        f"{repository}/tools/agent.py",
        "x.py",
    )
    assert agent_choice(found, "reader").command == ("python3", "/abs/agent.py")


@pytest.mark.spec("A3")
def test_an_agent_gets_only_the_variables_it_was_allowed(repository: Path) -> None:
    found = loaded(repository, "[agents.claude]\nenv = ['KEY', 'ABSENT']\n")
    environ = {"KEY": "k", "OTHER": "o", "GITHUB_TOKEN": "t", "PATH": "/bin"}
    assert agent_environment(agent_choice(found, "writer"), environ) == {"KEY": "k"}


@pytest.mark.spec("A4")
@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "GH_TOKEN", "MY_FORGE_TOKEN", "HOME", "RESOLVENT_RUN", "A=b", ""])
def test_a_forge_token_or_what_we_set_ourselves_cannot_be_allowed(repository: Path, name: str) -> None:
    said = refusal(repository, f'[forge]\ntoken = "$MY_FORGE_TOKEN"\n[agents.claude]\nenv = ["{name}"]\n')
    assert "agents.claude.env" in said


def test_a_recorded_choice_cannot_smuggle_a_forge_token_either() -> None:
    environ = {"GH_TOKEN": "t", "OURS": "u", "COPY": "t", "PLAIN": "p", "BROKEN": "😀\udc80"}
    for name in ("GH_TOKEN", "OURS", "COPY"):
        with pytest.raises(ConfigError, match=f"holds {name}, and that is a forge token") as caught:
            agent_environment(AgentChoice(name="x", use="command", env=(name,)), environ, withheld=("OURS",))
        assert environ[name] not in str(caught.value).split()
    with pytest.raises(ConfigError, match="is not UTF-8"):
        agent_environment(AgentChoice(name="x", use="command", env=("BROKEN",)), environ)
    assert agent_environment(AgentChoice(name="x", use="command", env=("PLAIN",)), environ) == {"PLAIN": "p"}


@pytest.mark.spec("C11")
def test_state_is_private_and_has_one_place_per_repository(repository: Path, home: dict[str, str]) -> None:
    place = state_directory(repository, environ=home)
    assert place.parent == Path(home["HOME"]) / ".local/state/resolvent"
    assert re.fullmatch(r"repository-[0-9a-f]{10}", place.name)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert state_directory(repository, environ=home) == place
    assert state_directory(repository.parent, environ=home) != place
    place.chmod(0o755)
    assert stat.S_IMODE(state_directory(repository, environ=home).stat().st_mode) == 0o700


def test_state_goes_where_it_is_told(repository: Path, home: dict[str, str], tmp_path: Path) -> None:
    assert state_directory(repository, environ=home | {"RESOLVENT_HOME": str(tmp_path / "a/b")}) == tmp_path / "a/b"
    there = state_directory(repository, environ=home | {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert there.parent == tmp_path / "state/resolvent"


def test_a_repository_with_a_hostile_name_still_gets_a_plain_place(tmp_path: Path, home: dict[str, str]) -> None:
    for name in (b"-rf \xff\n$(x)", b"...", b"x" * 200):
        repository = tmp_path / os.fsdecode(name)
        repository.mkdir()
        assert re.fullmatch(r"[A-Za-z0-9][\w.-]{0,50}", state_directory(repository, environ=home).name, re.ASCII)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}, {"RESOLVENT_HOME": "relative"}])
def test_without_an_absolute_place_there_is_no_state(repository: Path, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="no place for our state"):
        state_directory(repository, environ=environ)


def test_a_place_that_is_a_file_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot hold our state"):
        state_directory(repository, environ={"RESOLVENT_HOME": str(tmp_path / "file")})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
def test_a_place_of_another_user_is_refused(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        state_directory(repository, environ={"RESOLVENT_HOME": str(tmp_path / "theirs")})
