"""Agent text into a typed verdict: the token grammar, or JSON. What does not fit exactly is malformed."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from resolvent.domain.design import DesignDraft, DesignReview, DesignRevision
from resolvent.domain.job import Reply
from resolvent.domain.model import Value
from resolvent.domain.verdicts import Analysis, Fix, Implementation, Review, Variants, Verification
from resolvent.engine.blocks import (
    Section,
    explained,
    items,
    keyed,
    listed,
    reproducer,
    sections,
    several,
    validated,
)
from resolvent.engine.forms import SHAPES, WORDS
from resolvent.engine.transcript import Told, clean, final, speaks
from resolvent.errors import MalformedAnswer

T = TypeVar("T", bound=Value)

RAW_BYTES = 64 << 10
DESIGN = ("root_cause", "severity", "approach", "test_strategy", "risks", "alternatives_rejected")
DESIGN_LISTS = ("files_to_change", "edge_cases", "risks", "alternatives_rejected")
WHOLE_DESIGN = ("root_cause", "severity", "approach", "test_strategy", "revision_notes", *DESIGN_LISTS)
CLAIM = ("Description", "Code evidence", "Reachability", "Blast radius")
TRIAGE = ("Validity", "Origin", "Difficulty", "Risk", "Scope", "Rationale")
CARRIED_ALONG = ("Severity", "Description", "Code evidence", "Fix guidance")
VALIDITY = {"valid": True, "invalid": False, "already_fixed": False}
IN_SCOPE = {
    "validity": "valid",
    "origin": "unknown",
    "difficulty": "M",
    "risk": "med",
    "scope": "FIX_IN_THIS_PR",
    "rationale": "in scope",
}
_FREE = re.compile(r"(?P<key>reproducer)[ \t]*:(?P<first>.*)")


def parse(model: type[T], reply: Reply) -> T:
    """The verdict an agent gave; MalformedAnswer says exactly what is wrong, for its repair turn."""
    source = reply.answer if reply.answer is not None else reply.text
    try:
        answered = None if reply.answer is None else validated(model, reply.answer, called="the JSON answer")
        source, text = reply.text, clean(reply.text)
        if answered is not None and not speaks(text, SHAPES[model]):
            return answered
        told = _typed(model, final(text, SHAPES[model]))
        if answered is not None and (differ := _differing(answered, told)):
            raise MalformedAnswer(
                f"the JSON answer and the tokens disagree about {', '.join(differ)}: give only one of them"
            )
    except MalformedAnswer as error:
        error.details["raw"] = source.encode("utf-8", "replace")[-RAW_BYTES:].decode("utf-8", "ignore")
        raise
    return told


def grammar(model: type[Value]) -> str:
    """How this verdict is printed, for the end of a prompt; no token in it stands on a line of its own."""
    return WORDS[model]


def _typed(model: type[T], told: Told) -> T:
    try:
        return model.model_validate(_FIELDS[model](told))
    except ValidationError as error:
        raise MalformedAnswer(f"{told.token or 'the answer'} does not fit: {explained(error)}") from error


def _differing(answered: Value, told: Value) -> list[str]:
    one, other = (
        dict(said) | {"triage": set(said.triage)} if isinstance(said, Verification) else dict(said)
        for said in (answered, told)
    )
    return [name for name in one if one[name] != other[name]]


def _analysis(told: Told) -> dict[str, Any]:
    fields = {"verdict": told.token.removeprefix("VERDICT="), "reason": told.fields.get("REASON", "")}
    if "SOLUTION_DESIGN" in told.blocks:
        found = keyed(told.blocks["SOLUTION_DESIGN"], (*DESIGN, "reproducer"))
        return fields | _reproduced(found) | {"design": {key: found[key].text for key in found}}
    if "SOLUTION_SUGGESTION" in told.blocks:
        above, *found_here = sections(told.blocks["SOLUTION_SUGGESTION"], _FREE)
        if len(found_here) > 1:
            raise MalformedAnswer("the suggestion may hold one `reproducer:`")
        how, below = reproducer(found_here[0]) if found_here else ({}, ())
        return fields | how | {"suggestion": Section("", "", (*above.rest, *below)).text}
    return fields


def _reproduced(found: dict[str, Section]) -> dict[str, Any]:
    """Take the reproducer out of an item; nothing may follow it there but the next key."""
    if "reproducer" not in found:
        return {}
    how, below = reproducer(found.pop("reproducer"))
    if any(line.strip() for line in below):
        raise MalformedAnswer("only the next key may follow a reproducer")
    return how


def _design_draft(told: Told) -> dict[str, Any]:
    fields: dict[str, Any] = {"verdict": told.token.removeprefix("VERDICT=")}
    if "REASON" in told.fields:
        fields["reason"] = told.fields["REASON"]
    if "SOLUTION_DESIGN" in told.blocks:
        found = keyed(told.blocks["SOLUTION_DESIGN"], WHOLE_DESIGN)
        fields["design"] = {key: several(found[key]) if key in DESIGN_LISTS else found[key].text for key in found}
    return fields


def _design_review(told: Told) -> dict[str, Any]:
    return {
        "verdict": told.token,
        "approval_notes": told.fields.get("APPROVAL_NOTES", ""),
        "feedback": listed(told.blocks["REVISION_FEEDBACK"]) if "REVISION_FEEDBACK" in told.blocks else [],
        "comment_url": told.fields.get("REVIEW_COMMENT_URL", ""),
    }


def _implementation(told: Told) -> dict[str, Any]:
    if not told.token or "PR_NUMBER" in told.fields:
        number = told.fields["PR_NUMBER"]
        if not re.fullmatch(r"[0-9]{1,16}", number):
            raise MalformedAnswer("PR_NUMBER= must be a number")
        made = {"url": told.fields["PR_URL"], "number": int(number), "head": told.fields["PR_HEAD_BRANCH"]}
        return {"mode": "IMPLEMENTATION_SUCCESS", "pull_request": made}
    return _fix(told) | {"reason": told.fields.get("REASON", "")}


def _fix(told: Told) -> dict[str, Any]:
    return {
        "mode": told.token,
        "local_commit": told.fields.get("LOCAL_COMMIT", ""),
        "retry_push_branch": told.fields.get("RETRY_PUSH_BRANCH", ""),
    }


def _review(told: Told) -> dict[str, Any]:
    claims = []
    if "P0_P1_FINDINGS" in told.blocks:
        for item in items(told.blocks["P0_P1_FINDINGS"], start="Severity", keys=(*CLAIM, "reproducer")):
            claims.append(_reproduced(item) | {key: item[key].text for key in item})
    return {"verdict": told.token, "claims": claims}


def _variants(told: Told) -> dict[str, Any]:
    found = []
    if "VARIANTS" in told.blocks:
        for item in items(told.blocks["VARIANTS"], start="Variant", keys=("reproducer",)):
            how = _reproduced(item)
            if "reproducer" not in how:
                raise MalformedAnswer("every variant has a reproducer")
            found.append(how["reproducer"])
    return {"reproducers": found}


def _verification(told: Told) -> dict[str, Any]:
    triage = []
    if "IN_SCOPE_P0_P1" in told.blocks:
        for item in items(told.blocks["IN_SCOPE_P0_P1"], start="Finding", keys=(*TRIAGE, *CARRIED_ALONG)):
            triage.append(_placed({key: item[key].text for key in item}, IN_SCOPE))
            if triage[-1]["scope"] != "FIX_IN_THIS_PR":
                raise MalformedAnswer(f"{triage[-1]['finding']} stands in the in-scope block with another scope")
    if "TRIAGE" in told.blocks:
        for item in items(told.blocks["TRIAGE"], start="Finding", keys=TRIAGE):
            triage.append(_placed({key: item[key].text for key in item}, {}))
            if triage[-1]["scope"] == "FIX_IN_THIS_PR":
                raise MalformedAnswer(f"{triage[-1]['finding']} is FIX_IN_THIS_PR: it belongs into the in-scope block")
    return {"verdict": told.token, "triage": triage}


def _placed(said: dict[str, str], defaults: Mapping[str, str]) -> dict[str, Any]:
    word = {**defaults, **said}
    lacking = [key for key in TRIAGE if not word.get(key.lower())]
    if lacking:
        raise MalformedAnswer(f"finding {said['finding'][:100]!r} lacks {', '.join(lacking)}")
    if word["validity"] not in VALIDITY:
        raise MalformedAnswer(f"Validity must be one of {', '.join(VALIDITY)}")
    return {
        "finding": word["finding"],
        "valid": VALIDITY[word["validity"]],
        "origin": word["origin"].replace("pre-existing", "pre_existing"),
        **{key: word[key] for key in ("difficulty", "risk", "scope", "rationale")},
    }


_FIELDS: dict[type[Value], Callable[[Told], dict[str, Any]]] = {
    Analysis: _analysis,
    Implementation: _implementation,
    Fix: _fix,
    Review: _review,
    Verification: _verification,
    Variants: _variants,
    DesignDraft: _design_draft,
    DesignRevision: _design_draft,
    DesignReview: _design_review,
}
