"""What others wrote can be read in our comments, and does nothing there; a CommonMark parser is the judge."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from resolvent.domain.neutral import GAP, code, fenced, item, line, neutral, plain

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
CALLS = re.compile(r"@\w|#\d|\bGH-\d|https?://[^\s/]+/\S*/(?:issues|pull|commit)/", re.I)
HOSTILE = [
    "@team",
    "@org/team",
    "fixes",
    "#12",
    "closes",
    "o/r#3",
    "GH-7",
    "https://github.com/o/r/issues/4",
    "<b>",
    "<!--",
    "x",
    "-->",
    "&#64;me",
    "&commat;me",
    "`a`",
    "``b`",
    "```",
    "~~~",
    "|",
    "---",
    ":-",
    "#",
    "==",
    "*",
    "_",
    "[x](javascript:y)",
    "![i](http://t)",
    "[r]:",
    "http://u",
    "\\`",
    "\\@a",
    "\\<i",
    "\\#1",
    "gh\\-1",
    ">",
    "-",
    "1.",
    "/merge",
    "!go",
    "bors",
    "r+",
    "\t",
    "\n",
    "\r",
    "\u200b",
    "\u202e",
    "\u2028",
    "\ud800",
    "\x00",
    "\ufeff",
    "$",
    "~",
    "&",
    "&lt;",
    "&amp;lt;",
    "</details>",
    "www.a/issues/1",
]
TEXTS = st.one_of(
    st.lists(st.sampled_from([*HOSTILE, "\n", "\n", " ", "  ", "    "]), max_size=24).map("".join),
    st.text(alphabet="`~|-:@#1a \n\t\\<>&;[]()!*", max_size=60),
    st.text(max_size=60),
)


def inlines(markdown: str) -> list[Token]:
    return [child for token in MARKDOWN.parse(markdown) for child in token.children or [] if token.type == "inline"]


def acting(markdown: str) -> list[str]:
    """What a forge would do with it: tags, links, headings, and texts in which somebody or something is called."""
    blocks = {token.type for token in MARKDOWN.parse(markdown)}
    found = sorted(blocks & {"html_block", "heading_open", "hr"})
    texts = "".join(token.content if token.type == "text" else "\n" for token in inlines(markdown))
    found += [token.type for token in inlines(markdown) if token.type in ("html_inline", "image", "link_open")]
    return found + CALLS.findall(texts)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ask @team", f"ask @{GAP}team"),
        ("ask @acme/team-a", f"ask @{GAP}acme/team-a"),
        ("&#64;team and &commat;team", f"&amp;#{GAP}64;team and &amp;commat;team"),
        ("\\@team", f"\\@{GAP}team"),
        ("fixes #12", f"fixes #{GAP}12"),
        ("closes owner/repo#3, GH-4", f"closes owner/repo#{GAP}3, GH-{GAP}4"),
        ("gh\\-4", f"gh\\-{GAP}4"),
        ("resolves https://github.com/o/r/issues/4", f"resolves https:{GAP}//github.com/o/r/issues/4"),
        ("see https://docs.python.org/3/", "see https://docs.python.org/3/"),
        ("/merge", f"/{GAP}merge"),
        ("- /approve\n> !deploy", f"- /{GAP}approve\n> !{GAP}deploy"),
        ("@codex review", f"@{GAP}codex review"),
        ("bors r+", f"b{GAP}ors r+"),
        (".deploy production", f".{GAP}deploy production"),
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("<!-- resolvent-evidence -->", "&lt;!-- resolvent-evidence -->"),
        ("\\<!-- resolvent-evidence -->", "&lt;!-- resolvent-evidence -->"),
        ("a < b && c > d", "a &lt; b && c > d"),
        ("AT&T &lt; &amp;", "AT&T &lt; &amp;"),
        ("![x](http://track.example/p.png)", f"!{GAP}[x]{GAP}(http://track.example/p.png)"),
        ("[safe](javascript:alert(1))", f"[safe]{GAP}(javascript:alert(1))"),
        ("[a]: data:text/html,x", f"[a]{GAP}: data:text/html,x"),
        ("## ✅ Complete", "**✅ Complete**"),
        ("- # Complete *now*", "- \\# Complete *now*"),
        ("Complete\n===", "Complete\n\\==="),
        ("Complete\n-", "Complete\n\\-"),
        ("a\u202eb\u200bc\ufeffd\x07e", "a[U+202E]bcde"),
        ("naïve 👩‍👧 ✅️ می‌خواهم", "naïve 👩‍👧 ✅️ می‌خواهم"),
        ("half \ud800 a character", "half  a character"),
        ("one ` alone", "one \\` alone"),
        ("`#1 @a <b>` ``c ` d``", "`#1 @a <b>` ``c ` d``"),
        ("`a\\` @b", f"`a\\` @{GAP}b"),
        ("\\`@b`", f"\\`@{GAP}b\\`"),
        ("```py\n@a <b> #1\n```\n@c", f"```py\n@a <b> #1\n```\n@{GAP}c"),
        ("~~~\n@a\n```", "~~~\n@a\n```\n~~~"),
        ("```js @x <!-- y -->\n1", "```js\n1\n```"),
        ("> ```\n@team\n```", f"> \\`\\`\\`\n@{GAP}team\n```\n```"),
        ("- ok\n  ```\n  code\n@team\n", "- ok\n```\ncode\n@team\n```"),
        ("`<!-- resolvent-evidence -->` `<!-- mine -->`", "`<!-‑ resolvent-evidence -->` `<!-- mine -->`"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("| a | b |\n|---|---|\n| `1 | @x` |", "| a | b |\n\\|---|---|\n| `1 | @x` |"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("", ""),
    ],
)
def test_text_of_others_is_readable_and_does_nothing(text: str, shown: str) -> None:
    assert neutral(text) == shown
    assert neutral(shown) == shown
    assert acting(shown) == []


@pytest.mark.spec("X8")
@example("1\n- ")
@example("> 1\n>  - ")
@given(TEXTS)
def test_whatever_it_is_nothing_in_it_acts(text: str) -> None:
    assert acting(neutral(text)) == []


@given(TEXTS)
def test_made_neutral_twice_is_made_neutral_once(text: str) -> None:
    assert neutral(neutral(text)) == neutral(text)


@given(TEXTS)
def test_nothing_after_it_is_drawn_into_it(text: str) -> None:
    last = MARKDOWN.parse(f"{neutral(text)}\n\n@ours")[-2]
    assert (last.type, last.content) == ("inline", "@ours")


@given(TEXTS)
def test_an_item_stays_in_its_item(text: str) -> None:
    tokens = MARKDOWN.parse(f"- it: {item(text)}\n- next")
    assert [token.type for token in tokens if token.level == 1] == ["list_item_open", "list_item_close"] * 2


@example("\\|", "")
@given(TEXTS, TEXTS)
def test_a_cell_stays_in_its_cell(text: str, other: str) -> None:
    table = f"| a | b |\n|---|---|\n| x{line(text)} | x{code(other)} |\n\n"
    tokens = MARKDOWN.parse(table)
    cells = [tokens[at + 1] for at, token in enumerate(tokens) if token.type == "td_open"]
    assert len(cells) == 2
    assert [token.type for token in cells[1].children or [] if token.type not in ("html_inline", "text")] in (
        ["code_inline"],
        [],
    )
    texts = "".join(token.content if token.type == "text" else "\n" for token in cells[0].children or [])
    assert not CALLS.search(texts)


@given(st.text(alphabet="`~a\n ", max_size=80))
def test_a_fence_of_ours_cannot_be_left(text: str) -> None:
    block, *rest = MARKDOWN.parse(fenced(text))
    assert (block.type, rest) == ("fence", [])
    assert block.content.rstrip("\n") == text.rstrip("\n")
    assert neutral(fenced(text)) == fenced(text)


@given(st.text(alphabet="`ab#@<\\ ", min_size=1, max_size=40))
def test_a_span_of_ours_shows_every_character(text: str) -> None:
    (span,) = inlines(f"x{code(text)}")[1:]
    assert span.type == "code_inline"
    assert span.content.strip() == " ".join(text.split())
    assert neutral(f"x{code(text)}") == f"x{code(text)}"


@given(TEXTS)
@example("<!---->")
def test_a_title_or_the_message_of_a_commit_calls_nobody(text: str) -> None:
    said = plain(text)
    assert not CALLS.search(said) and "\n" not in said and "<!--" not in said
    assert plain(said) == said


def test_a_title_stays_readable_where_nothing_renders_it() -> None:
    title = "fixes #12 & `@a` of <T> at https://github.com/o/r/pull/3"
    assert plain(title).replace("\u200b", "") == title


@pytest.mark.parametrize(
    "pattern",
    [
        "`",
        "` `` ``` ",
        "[",
        "](",
        "&",
        "&#",
        "@a",
        "|",
        "|-",
        "> ",
        "- ",
        "# ",
        "~~~\n",
        "```\n",
        "\\",
        "\\`",
        "http://",
        "<!--",
        "\n",
        "*",
    ],
)
def test_a_flood_of_anything_takes_no_time(pattern: str) -> None:
    started = time.process_time()
    neutral(pattern * (300_000 // len(pattern)))
    assert time.process_time() - started < 5
