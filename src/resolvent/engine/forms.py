"""The token grammar: which tokens each verdict has, what belongs to them, and how agents are told."""

from resolvent.domain.design import DesignDraft, DesignReview, DesignRevision
from resolvent.domain.model import Value
from resolvent.domain.verdicts import Analysis, Fix, Implementation, Review, Variants, Verification
from resolvent.engine.transcript import Form, Shape

PULL_REQUEST = ("PR_URL", "PR_NUMBER", "PR_HEAD_BRANCH")
POSTED = ("REVIEW_COMMENT_URL",)
UNPUSHED = Form(fields=("LOCAL_COMMIT", "RETRY_PUSH_BRANCH"))

SHAPES: dict[type[Value], Shape] = {
    Analysis: Shape(
        {
            "VERDICT=NEED_FIX": Form(block="SOLUTION_DESIGN"),
            "VERDICT=NO_ACTION_NEEDED": Form(fields=("REASON",)),
            "VERDICT=VALID": Form(block="SOLUTION_SUGGESTION"),
            "VERDICT=INVALID": Form(together=("REASON",)),
        }
    ),
    Implementation: Shape(
        {
            "IMPLEMENTATION_SUCCESS": Form(together=PULL_REQUEST),
            "GH_AUTH_EXPIRED": UNPUSHED,
            "IMPLEMENTATION_BLOCKED": Form(fields=("REASON",)),
        },
        bare=PULL_REQUEST,
    ),
    Fix: Shape({"FIX_SUCCESS": Form(), "GH_AUTH_EXPIRED": UNPUSHED}),
    Review: Shape({"NO_P0_P1": Form(), "P0_P1_FINDINGS": Form(block="P0_P1_FINDINGS")}),
    Verification: Shape(
        {"NO_IN_SCOPE_P0_P1": Form(), "IN_SCOPE_P0_P1": Form(block="IN_SCOPE_P0_P1")}, asides=("TRIAGE",)
    ),
    Variants: Shape({"NO_VARIANTS": Form(), "VARIANTS": Form(block="VARIANTS")}),
    DesignDraft: Shape(
        {
            "VERDICT=NEED_DESIGN_REVIEW": Form(block="SOLUTION_DESIGN"),
            "VERDICT=NO_ACTION_NEEDED": Form(fields=("REASON",)),
        }
    ),
    DesignRevision: Shape({"VERDICT=NEED_DESIGN_REVIEW": Form(block="SOLUTION_DESIGN")}),
    DesignReview: Shape(
        {
            "DESIGN_APPROVED": Form(fields=("APPROVAL_NOTES",), together=POSTED),
            "DESIGN_NEEDS_REVISION": Form(block="REVISION_FEEDBACK", together=POSTED),
        }
    ),
}

_RULES = """\
End your output with exactly one verdict, and print nothing after it. Each token named here is a whole line that
begins at the margin: not indented, not quoted, not decorated, not in a code fence. Print no other verdict
anywhere, and leave no block open. If you have to quote one of these tokens elsewhere, indent the quotation."""
_REPRODUCER = """\
Below the key `reproducer:` stands a fence that opens with ```json and holds one object: `command` (runs in a
shell at the root of the repository and fails while the problem is there), and if needed `files` (a list of
`path` and `text`, laid over the checkout, never over a tracked file), `expect` (any of `exit`, `pattern`,
`test_id`: what the failure must look like) and `timeout_s`. A command that cannot be found, imports or collects
nothing, or runs out of time, shows nothing; if a failing import is itself the problem, say so in `pattern`. If
there is nothing to run, write `reproducer: none` and the reason on that line."""
_UNPUSHED = """\
- If you made a commit and the forge refused your credentials twice: a line reading `GH_AUTH_EXPIRED`, then one
  line with `LOCAL_COMMIT=` and the commit, and one with `RETRY_PUSH_BRANCH=` and the branch."""
_DESIGN = """\
a line reading `VERDICT=NEED_DESIGN_REVIEW`, then a line reading `BEGIN_SOLUTION_DESIGN`, then these keys, each at the
  start of a line and followed by a colon: root_cause, severity (exactly one of P0, P1, P2, feature), approach,
  files_to_change, edge_cases, test_strategy, risks, alternatives_rejected{more}; and at last a line reading
  `END_SOLUTION_DESIGN` and nothing else. Every key is there. files_to_change, edge_cases, risks and
  alternatives_rejected take a list: nothing behind the colon, and below it one point per line that begins with `- `;
  indent the further lines of a point by two spaces. The other values are text, which may take several lines."""

WORDS: dict[type[Value], str] = {
    Analysis: f"""\
{_RULES}
- If something is to be done: a line reading `VERDICT=NEED_FIX`, then a line reading `BEGIN_SOLUTION_DESIGN`,
  then these keys, each at the start of a line and followed by a colon and its text, which may take several
  lines: root_cause, severity (exactly one of P0, P1, P2, feature, enhancement), approach, test_strategy, risks,
  alternatives_rejected, reproducer; and at last a line reading `END_SOLUTION_DESIGN` and nothing else.
- If nothing is to be done: a line reading `VERDICT=NO_ACTION_NEEDED`, then one line with `REASON=` and
  the reason why.
The older words are understood too: a line reading `VERDICT=VALID` with free text between lines reading
`BEGIN_SOLUTION_SUGGESTION` and `END_SOLUTION_SUGGESTION` below it, or `VERDICT=INVALID` alone on the last line.
{_REPRODUCER}""",
    Implementation: f"""\
{_RULES}
- If the change is in the working directory: a line reading `IMPLEMENTATION_SUCCESS`. You need not push or open
  a pull request. Only if you did open one yourself, three more lines follow: `PR_URL=` with its address,
  `PR_NUMBER=` with its number, and `PR_HEAD_BRANCH=` with its branch; all three or none.
{_UNPUSHED}
- If the design cannot work: a line reading `IMPLEMENTATION_BLOCKED`, then one line with `REASON=` and why.""",
    Fix: f"""\
{_RULES}
- If the fix is in the working directory: a line reading `FIX_SUCCESS` and nothing else.
{_UNPUSHED}""",
    Review: f"""\
{_RULES}
- If there is no P0 and no P1: a line reading `NO_P0_P1` and nothing else.
- Otherwise: a line reading `P0_P1_FINDINGS`, then a line reading `BEGIN_P0_P1_FINDINGS`, then the findings, and
  at last a line reading `END_P0_P1_FINDINGS` and nothing else.
Each finding begins with `- Severity: P0` or `- Severity: P1` and goes on with these keys, each on a line of its
own: `- Description:`, `- Code evidence:` (file and line, and why), `- Reachability:`, `- Blast radius:` and
`- reproducer:`. Indent the further lines of a value by two spaces. Nothing else may stand between.
{_REPRODUCER}""",
    Verification: f"""\
{_RULES}
- First, if there are findings that are not to be fixed in this pull request: a line reading `BEGIN_TRIAGE`, then
  those findings, then a line reading `END_TRIAGE` and nothing else.
- Then, directly below, if no finding is to be fixed here: a line reading `NO_IN_SCOPE_P0_P1` and nothing else.
- Or, if there are such: a line reading `IN_SCOPE_P0_P1`, then a line reading `BEGIN_IN_SCOPE_P0_P1`, then the
  findings to be fixed in this pull request, and at last a line reading `END_IN_SCOPE_P0_P1` and nothing else.
Place every finding once. In either block a finding begins with `- Finding:` and its id, and goes on with these
keys, each on a line of its own: `- Validity:` valid, invalid or already_fixed; `- Origin:` introduced,
pre-existing or unknown; `- Difficulty:` S, M or L; `- Risk:` low, med or high; `- Scope:` is FIX_IN_THIS_PR,
DEFER_CREATE_ISSUE or INVALID_OR_ALREADY_FIXED; `- Rationale:` why. Indent the further lines of a value by two
spaces. What is not valid is INVALID_OR_ALREADY_FIXED, and only that is.""",
    Variants: f"""\
{_RULES}
- If you can show the problem in other ways: a line reading `VARIANTS`, then a line reading `BEGIN_VARIANTS`, then
  the variants, and at last a line reading `END_VARIANTS` and nothing else.
- If there is no other way: a line reading `NO_VARIANTS` and nothing else.
Each variant begins with `- Variant:` and, in a few words, what is different in it, and goes on with the key
`- reproducer:` on a line of its own. Nothing else may stand between.
{_REPRODUCER}""",
    DesignDraft: f"""\
{_RULES}
- If nothing is to be done: a line reading `VERDICT=NO_ACTION_NEEDED`, then one line with `REASON=` and
  the reason why.
- Otherwise the design: {_DESIGN.format(more="")}""",
    DesignRevision: f"""\
{_RULES}
- The revised design: {_DESIGN.format(more=", revision_notes")}""",
    DesignReview: f"""\
{_RULES}
- If the design is sound: a line reading `DESIGN_APPROVED`, then one line with `APPROVAL_NOTES=` and, in short, why.
- If it must be revised: a line reading `DESIGN_NEEDS_REVISION`, then a line reading `BEGIN_REVISION_FEEDBACK`, then
  one point per gap, each beginning with `- ` at the margin (indent its further lines by two spaces), and at last a
  line reading `END_REVISION_FEEDBACK` and nothing else.
Only if you posted your review as a comment yourself: one more line below, `REVIEW_COMMENT_URL=` with its address.""",
}
