"""The schema of the local forge's tables; each step is only ever appended, and old rows keep their meaning."""

from collections.abc import Sequence

_FIRST = (
    """CREATE TABLE forge_items (number {serial}, kind TEXT NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL,
       author TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', head TEXT NOT NULL DEFAULT '',
       base TEXT NOT NULL DEFAULT '')""",
    """CREATE UNIQUE INDEX forge_one_open_pull ON forge_items (head, base)
       WHERE kind = 'pull' AND state = 'open'""",
    "CREATE TABLE forge_labels (number BIGINT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (number, name))",
    """CREATE TABLE forge_comments (id {serial}, number BIGINT NOT NULL, author TEXT NOT NULL,
       body TEXT NOT NULL)""",
    "CREATE INDEX forge_comments_of ON forge_comments (number)",
    """CREATE TABLE forge_reviews (id {serial}, number BIGINT NOT NULL, author TEXT NOT NULL,
       verdict TEXT NOT NULL, body TEXT NOT NULL, on_commit TEXT NOT NULL)""",
    "CREATE TABLE forge_required (name TEXT PRIMARY KEY)",
    """CREATE TABLE forge_checks (on_commit TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
       log TEXT NOT NULL, PRIMARY KEY (on_commit, name))""",
    "CREATE TABLE forge_reruns (id {serial}, on_commit TEXT NOT NULL, name TEXT NOT NULL)",
)

# What was written before there were times is as old as the epoch.
_TIMED = (
    *(
        f"ALTER TABLE forge_items ADD COLUMN {column}"
        for column in (
            "created_at DOUBLE PRECISION NOT NULL DEFAULT 0",
            "updated_at DOUBLE PRECISION NOT NULL DEFAULT 0",
            "closed_at DOUBLE PRECISION",
            "reason TEXT NOT NULL DEFAULT ''",
            "locked BIGINT NOT NULL DEFAULT 0",
            "draft BIGINT NOT NULL DEFAULT 0",
            "merged_at DOUBLE PRECISION",
            "merged_by TEXT NOT NULL DEFAULT ''",
        )
    ),
    "UPDATE forge_items SET closed_at = 0 WHERE state <> 'open'",
    "UPDATE forge_items SET merged_at = 0 WHERE state = 'merged'",
    "ALTER TABLE forge_comments ADD COLUMN created_at DOUBLE PRECISION NOT NULL DEFAULT 0",
    "ALTER TABLE forge_comments ADD COLUMN updated_at DOUBLE PRECISION NOT NULL DEFAULT 0",
    "ALTER TABLE forge_reviews ADD COLUMN created_at DOUBLE PRECISION NOT NULL DEFAULT 0",
    """CREATE TABLE forge_line_remarks (id {serial}, review BIGINT NOT NULL, author TEXT NOT NULL, body TEXT NOT NULL,
       path TEXT NOT NULL, line BIGINT NOT NULL, on_commit TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE forge_known_labels (id {serial}, name TEXT NOT NULL UNIQUE, color TEXT NOT NULL DEFAULT 'ededed',
       description TEXT NOT NULL DEFAULT '')""",
    "INSERT INTO forge_known_labels (name) SELECT DISTINCT name FROM forge_labels",
    """CREATE TABLE forge_reactions (id {serial}, number BIGINT NOT NULL, comment BIGINT NOT NULL DEFAULT 0,
       login TEXT NOT NULL, content TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL,
       UNIQUE (number, comment, login, content))""",
    "CREATE TABLE forge_assignees (number BIGINT NOT NULL, login TEXT NOT NULL, PRIMARY KEY (number, login))",
    "CREATE TABLE forge_reviewers (number BIGINT NOT NULL, login TEXT NOT NULL, PRIMARY KEY (number, login))",
    # One row for every attempt; `run` is the first attempt's id, or 0 where a status was set without a run.
    """CREATE TABLE forge_check_runs (id {serial}, run BIGINT NOT NULL DEFAULT 0, on_commit TEXT NOT NULL,
       name TEXT NOT NULL, status TEXT NOT NULL, conclusion TEXT NOT NULL DEFAULT '', log TEXT NOT NULL DEFAULT '',
       attempt BIGINT NOT NULL DEFAULT 1, started_at DOUBLE PRECISION NOT NULL DEFAULT 0,
       completed_at DOUBLE PRECISION)""",
    "CREATE INDEX forge_check_runs_of ON forge_check_runs (on_commit, name)",
    """INSERT INTO forge_check_runs (on_commit, name, status, conclusion, log, attempt, completed_at)
       SELECT c.on_commit, c.name, CASE WHEN c.state = 'pending' THEN 'queued' ELSE 'completed' END,
         CASE c.state WHEN 'passed' THEN 'success' WHEN 'failed' THEN 'failure' ELSE '' END, c.log,
         1 + (SELECT count(*) FROM forge_reruns r WHERE r.on_commit = c.on_commit AND r.name = c.name),
         CASE WHEN c.state = 'pending' THEN NULL ELSE 0 END
       FROM forge_checks c""",
    "UPDATE forge_check_runs SET run = id",
    "DROP TABLE forge_checks",
    "DROP TABLE forge_reruns",
    """CREATE TABLE forge_accounts (id {serial}, login TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
       permission TEXT NOT NULL)""",
    # Of a token only its SHA-256 is kept.
    "CREATE TABLE forge_tokens (digest TEXT PRIMARY KEY, login TEXT NOT NULL, scopes TEXT NOT NULL)",
    "CREATE TABLE forge_facts (name TEXT PRIMARY KEY, fact TEXT NOT NULL)",
    # Another number after every write, for whoever keeps a copy.
    "CREATE TABLE forge_version (number BIGINT NOT NULL)",
    "INSERT INTO forge_version (number) VALUES (1)",
)

# Who put a label on before that is nobody.
_LABELLED = (
    "ALTER TABLE forge_labels ADD COLUMN by_login TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE forge_labels ADD COLUMN created_at DOUBLE PRECISION NOT NULL DEFAULT 0",
)

SCHEMA: Sequence[Sequence[str]] = (_FIRST, _TIMED, _LABELLED)
