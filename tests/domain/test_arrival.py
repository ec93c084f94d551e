"""What a comment asks of us: one word after a mention, outside of what is only shown; and who may ask it."""

import time

import pytest

from resolvent.domain.arrival import Arrival, Rules, counts, may_ask, may_label, runs_named_in, wish_in
from resolvent.domain.subject import Comment, Permission

ASKED = [
    ("@resolvent", "resolve"),
    ("@Resolvent!", "resolve"),
    ("cc @resolvent, please.", "unclear"),
    ("Over to you @resolvent.\nThanks", "resolve"),
    ("@resolvent resolve", "resolve"),
    ("  @resolvent   RESOLVE!  ", "resolve"),
    ("@resolvent: resolve this when you can", "resolve"),
    ("@resolvent design", "design"),
    ("**@resolvent** design", "design"),
    ("@resolvent stop", "stop"),
    ("@resolvent stop --now", "stop"),
    ("@resolvent resolve\r\n@resolvent stop\r\n", "stop"),
    ("Thanks for the analysis, @resolvent did well.\n\n@resolvent design", "design"),
    ("@resolvent design\n@resolvent resolve", "unclear"),
    ("@resolvent resolve --merge", "unclear"),
    ("@resolvent --unsafe", "unclear"),
    ("@resolvent stop-gap", "unclear"),
    ("@resolvent $(reboot)", "unclear"),
    ("@resolvent resolve; rm -rf /", "unclear"),
    ("- [ ] @resolvent resolve", "resolve"),
    ("a `quoted` word, then @resolvent resolve", "resolve"),
    ("an unmatched ` backtick\n\n@resolvent resolve, another `", "resolve"),
    ("```sh\nls\n```\n@resolvent resolve", "resolve"),
    ("(@resolvent resolve)", "resolve"),
]
SILENT = [
    "",
    "resolvent resolve",
    "me@resolvent.example and x@resolvent",
    "@resolvent-bot resolve",
    "@resolvents resolve",
    "@resolvent/team resolve",
    "@@resolvent resolve",
    "https://example.invalid/@resolvent resolve",
    "`@resolvent resolve`",
    "``a ` b @resolvent resolve``",
    "`over two\nlines @resolvent stop`",
    "```\n@resolvent resolve\n```",
    "~~~\n```\n@resolvent resolve\n~~~",
    "- item\n  ```\n  @resolvent stop\n  ```",
    "```\nnever closed\n@resolvent resolve",
    "    @resolvent resolve",
    "\t@resolvent resolve",
    "> @resolvent resolve",
    "   > @resolvent resolve",
    "<!-- @resolvent resolve -->",
    "<!-- @resolvent resolve",
    "<code>@resolvent resolve</code>",
    "<PRE class=x>\n@resolvent resolve\n</PRE>",
    "<blockquote>@resolvent resolve</blockquote>",
    "@resolvent resolve\n\n<!-- resolvent:r1:comment -->",
    "@resolvent resolve <!--RESOLVENT-stopped:r1 -->",
]


@pytest.mark.parametrize(("text", "wish"), ASKED)
def test_one_word_after_a_mention_is_read(text: str, wish: str) -> None:
    assert wish_in(text, "resolvent") == wish


@pytest.mark.parametrize("text", SILENT)
def test_what_is_only_shown_asks_nothing(text: str) -> None:
    assert wish_in(text, "resolvent") is None


def test_without_a_name_nobody_is_mentioned() -> None:
    assert wish_in("@ resolve @resolvent", "") is None


def test_a_name_with_signs_in_it_is_only_that_name() -> None:
    assert wish_in("@a.c resolve", "a.c") == "resolve"
    assert wish_in("@abc resolve", "a.c") is None


@pytest.mark.parametrize("part", ["`", "` `` ", "<code>", "<!--", "@resolvent ", "> ", "```\n", "- ", "1. "])
def test_a_hostile_text_takes_no_time(part: str) -> None:
    began = time.process_time()
    wish_in(part * (65536 // len(part)), "resolvent")
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("allow", "permission", "may"),
    [
        ("write", "write", True),
        ("write", "admin", True),
        ("write", "triage", False),
        ("none", "none", True),
        ("admin", "maintain", False),
    ],
)
def test_who_may_do_enough_may_ask(allow: Permission, permission: Permission, may: bool) -> None:
    assert may_ask("ada", permission, Rules(allow=allow)) is may


def test_who_is_listed_may_always_ask() -> None:
    assert may_ask("Ada", "none", Rules(logins=("ada",)))


@pytest.mark.parametrize("login", ["resolvent", "RESOLVENT", "helper[bot]", ""])
def test_we_bots_and_nobody_do_not_count(login: str) -> None:
    assert not counts(login, bot=False, own="resolvent", rules=Rules())


def test_a_bot_by_its_account_counts_only_where_it_is_listed() -> None:
    assert not counts("helper", bot=True, own="resolvent", rules=Rules())
    assert counts("helper", bot=True, own="resolvent", rules=Rules(logins=("Helper",)))


def test_a_label_is_the_same_whatever_its_case_and_an_empty_one_is_none() -> None:
    assert Rules(label="Resolvent").labels(("bug", "resolvent"))
    assert not Rules(label="").labels(("",))


def test_a_comment_asks_once_whoever_tells_of_it_and_whenever() -> None:
    def told(at: float, delivery: str) -> Arrival:
        said = Comment(id="9", author="ada", body="", url="", target="issue-7")
        return Arrival(kind="mentioned", subject="issue-7", at=at, comment=said, delivery=delivery)

    assert told(1.0, "").id == told(2.0, "x").id
    assert Arrival(kind="edited", subject="issue-7", at=1).id != Arrival(kind="edited", subject="issue-7", at=2).id


@pytest.mark.parametrize(
    ("login", "permission", "allow", "may"),
    [
        ("", "none", "write", True),
        ("eve", "read", "write", False),
        ("tri", "triage", "write", True),
        ("tri", "triage", "admin", True),
        ("eve", "read", "read", True),
        ("eve", "none", "read", False),
        ("helper[bot]", "none", "write", True),
        ("Listed", "none", "write", True),
    ],
)
def test_a_label_counts_from_who_may_label_or_ask(
    login: str, permission: Permission, allow: Permission, may: bool
) -> None:
    assert may_label(login, permission, Rules(allow=allow, logins=("listed",))) is may


def test_the_runs_that_left_a_marker_are_named_once() -> None:
    said = "<!-- resolvent:r0123abcd:status -->\n<!-- resolvent-stopped:r0123abcd -->\n<!-- resolvent:rffffffff:x -->"
    assert runs_named_in(said) == ("r0123abcd", "rffffffff")
    assert runs_named_in("<!-- resolvent-heard:9 --> resolvent:r0123abcd <!-- resolvent:r0123abcde -->") == ()
