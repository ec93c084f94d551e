"""Text of others in a comment of ours: it can be read, and does nothing.

A forge reads a comment three times: as Markdown; as text in which people, issues and commits are linked; and, by
whatever bot listens, line by line as it was written. What would act in any of these readings is broken by a character
nobody sees, written as the entity `&#8203;`, which no later step of a forge takes out again. Code is left exactly as
it is: nothing acts there. But then all must agree on what is code. So only these count, and whatever else could be
taken for it is escaped: a fence that starts a line, moved to the first column, out of every list and quotation; and a
span that ends on its line.
"""

import re
from bisect import bisect_right

GAP = "&#8203;"

_ENDS = re.compile(r"\r\n?|[\u2028\u2029]")
# Never shown, and never meant: controls, half characters, fillers, tags and selectors that only hide something.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2060-\u2065\u206a-\u206f\u3164\ud800-\udfff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
# What turns the direction of the text around it, also of ours.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
_OWN_MARKER = re.compile(r"<!--(?=\s{0,9}(?:resolvent|pantheon))", re.I)

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<run>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)$")
_INFO = re.compile(r"[ \t]*([A-Za-z0-9_+#.-]{0,40})")
_PREFIX = re.compile(r"[ \t]*(?:(?:[-+*]|[0-9]{1,9}[.)])[ \t]+|>[ \t]*)*")
_HEADING = re.compile(r"#{1,6}(?:[ \t]+(?P<text>.*)|$)")
_RULES = ({"-"}, {"="}, {"*"}, {"_"})
_COMMAND = re.compile(
    r"[/!](?=[A-Za-z])|\.(?=(?:deploy|noop|lock|unlock|help)\b)|b(?=ors\b[ \t:])|h(?=omu\b[ \t:])"
    r"|r(?=e(?:check|test)\b)|j(?=enkins\b)|o(?=k to test)|t(?=est this please)|a(?=dd to whitelist)",
    re.I,
)
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_BACKSLASHED = re.compile(r"\\(?=\\*\|)")
_ENTITY = re.compile(
    r"&(?!(?:lt|gt|amp|quot|#8203);)(?=(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});)"
)
_TAG = re.compile(r"\\?<")
_LINK = re.compile(r"\](?=[(:])")
_IMAGE = re.compile(r"!(?=\[)")
_SCHEME = re.compile(r"https?:(?=//)|www(?=\.)", re.I)
_ADDRESS = re.compile(rf"(?:{_SCHEME.pattern})[^\s<]*", re.I)
_CROSSING = re.compile(r"\\|/(?:issues?|pulls?|commits?|discussions?|merge_requests|compare)(?:/|%|$)", re.I)
_NAMED = re.compile(r"@(?=\w)|(?:(?<!&)#|&#(?!8203;))(?=[0-9])|!(?=[0-9])|\bGH\\?-(?=[0-9])", re.I)


def neutral(text: str) -> str:
    """Agent text made harmless in Markdown; code spans and fences stay byte-exact."""
    rows = visible(text).split("\n")
    # The cells of a table are cut before spans are looked for: what we keep as code would be none there.
    no_tables = any("|" in span for row in rows for is_code, span in _parts(row) if is_code)
    done: list[str] = []
    fence: re.Match[str] | None = None
    for row in rows:
        if fence is None:
            fence = _FENCE.match(row)
            done.append(f"{fence['run']}{_word(fence['info'])}" if fence else row and _row(row, no_tables=no_tables))
            continue
        within = _outdented(row, len(fence["indent"]))
        done.append(_unmarked(within))
        if _closes(within, fence["run"]):
            done[-1] = within.strip(" \t")
            fence = None
    if fence is not None:
        done[-1:] = [*filter(None, done[-1:]), fence["run"]]
    return "\n".join(done)


def line(text: str) -> str:
    """It on one line, for a title or a cell of a table: nothing in it ends the cell."""
    flat = " ".join(visible(text).split())
    parts = [code(span.strip("`").strip(" ")) if is_code else _inline(span) for is_code, span in _parts(flat)]
    # A backslash before it would take the entity's first character for itself.
    return _BACKSLASHED.sub("&#92;", "".join(parts)).replace("|", "&#124;")


def item(text: str, *, indent: str = "  ") -> str:
    """It as the content of a list item, whose later lines stay in that item."""
    return neutral(text.strip()).replace("\n", f"\n{indent}")


def code(text: str) -> str:
    """It as a code span, on one line; in a table too."""
    flat = _unmarked(" ".join(visible(text).split())) or " "
    if "|" in flat:
        # A table takes a pipe for the end of the cell, also within a span; it does not look into entities.
        return f"<code>{_PUNCTUATION.sub(lambda sign: f'&#{ord(sign[0])};', flat)}</code>"
    run = "`" * (1 + max((len(found) for found in re.findall("`+", flat)), default=0))
    pad = " " if flat[0] == "`" or flat[-1] == "`" else ""
    return f"{run}{pad}{flat}{pad}{run}"


def fenced(text: str, *, info: str = "text") -> str:
    """It as a fenced block that nothing in it can close."""
    inside = _unmarked(visible(text)).rstrip("\n")
    run = "`" * (1 + max((len(found) for found in re.findall("`{3,}", inside)), default=2))
    return f"{run}{_word(info)}\n{inside}\n{run}"


def plain(text: str) -> str:
    """It on one line where nothing renders it, as in a title or the message of a commit: nobody is called there."""
    flat = " ".join(visible(text).split()).replace("<!--", "<!-\u2011")
    flat = _ADDRESS.sub(lambda found: _address(found).replace(GAP, "\u200b"), flat)
    return _NAMED.sub(lambda named: f"{named[0]}\u200b", flat)


def visible(text: str) -> str:
    """It without what nobody sees; what would turn its direction is named instead."""
    seen = _HIDDEN.sub("", _ENDS.sub("\n", text))
    return _TURNS.sub(lambda turn: f"[U+{ord(turn[0]):04X}]", seen)


def _unmarked(text: str) -> str:
    """Code without markers of ours: these count wherever they stand."""
    return _OWN_MARKER.sub("<!-\u2011", text)


def _word(info: str) -> str:
    found = _INFO.match(info)
    return found[1] if found else ""


def _outdented(row: str, width: int) -> str:
    """Without as much of its indentation as the fence had."""
    deep = len(row) - len(row.lstrip(" \t"))
    return row[min(deep, width) :]


def _closes(row: str, run: str) -> bool:
    bare = row.strip(" \t")
    indented = "\t" in row[: row.find(run[0])] or row.startswith("    ")
    return not indented and len(bare) >= len(run) and set(bare) == {run[0]}


def _row(row: str, *, no_tables: bool) -> str:
    """One line outside of fences: it is no heading, underlines nothing, and commands nobody."""
    found = _PREFIX.match(row)
    prefix = found[0] if found else ""
    rest = row[len(prefix) :]
    if not rest and (dash := prefix.rstrip(" \t")).endswith("-"):
        # An item with nothing in it, or the underline of a heading.
        return f"{dash[:-1]}\\-"
    heading = _HEADING.match(rest)
    bare = set(rest) - {" ", "\t"}
    if heading:
        words = (heading["text"] or "").rstrip(" \t#")
        rest = f"**{words}**" if words and not set("*`\\") & set(words) else f"\\{rest}"
    elif rest.startswith("~~~") or bare in _RULES or (no_tables and bare <= set("|:-") and bare & set("|:")):
        rest = f"\\{rest}"
    command = _COMMAND.match(rest)
    if command:
        return f"{prefix}{command[0]}{GAP}" + _inlines(rest[command.end() :])
    return prefix + _inlines(rest)


def _inlines(text: str) -> str:
    return "".join(_unmarked(span) if is_code else _inline(span) for is_code, span in _parts(text))


def _inline(text: str) -> str:
    """Text between code: no tag, no entity, no image, no link with a hidden target, nobody and nothing called."""
    text = _ENTITY.sub("&amp;", text)
    text = _TAG.sub("&lt;", text)
    text = _ADDRESS.sub(_address, text)
    text = _IMAGE.sub(f"!{GAP}", text)
    text = _LINK.sub(f"]{GAP}", text)
    return _NAMED.sub(lambda named: f"{named[0]}{GAP}", text)


def _address(found: re.Match[str]) -> str:
    """An address that tells another issue or commit of this comment is text; others stay links."""
    if not _CROSSING.search(found[0]):
        return found[0]
    return _SCHEME.sub(lambda scheme: f"{scheme[0]}{GAP}", found[0])


def _parts(text: str) -> list[tuple[bool, str]]:
    """The line cut into text and code spans, in which every backtick that opens no span is escaped."""
    if "`" not in text:
        return [(False, text)]
    runs = [(found.start(), found.end()) for found in re.finditer("`+", text)]
    places: dict[int, list[int]] = {}
    for start, end in runs:
        places.setdefault(end - start, []).append(start)
    parts: list[tuple[bool, str]] = []
    at = 0
    for start, end in runs:
        if start < at:
            continue
        slashes = len(text[at:start]) - len(text[at:start].rstrip("\\"))
        opens = start + slashes % 2
        same = places.get(end - opens, []) if end > opens else []
        nth = bisect_right(same, start)
        if nth < len(same) and same[nth] >= end:
            after = same[nth] + end - opens
            parts += [(False, text[at:opens]), (True, text[opens:after])]
            at = after
        else:
            parts.append((False, text[at:opens] + "\\`" * (end - opens)))
            at = end
    return [*parts, (False, text[at:])]
