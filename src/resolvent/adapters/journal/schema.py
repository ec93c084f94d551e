"""The tables of our own facts. Schema N is the Nth item of SCHEMAS; items are appended, never edited.

In Postgres they live in the schema `resolvent`. In SQLite they share a file with the durable-execution library, whose
table names are others; a test compares them.
"""

from collections.abc import Sequence

_RUN = "run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE"

_FIRST = (
    """CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        playbook TEXT NOT NULL,
        subject TEXT NOT NULL,
        title TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'waiting', 'ended')),
        outcome TEXT NOT NULL,
        reason TEXT NOT NULL,
        plays BIGINT NOT NULL,
        cancelling BIGINT NOT NULL,
        forked_from TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        updated_at DOUBLE PRECISION NOT NULL,
        result TEXT,
        inputs TEXT NOT NULL
    )""",
    "CREATE INDEX runs_newest ON runs (created_at, id)",
    "CREATE INDEX runs_by_state ON runs (state, created_at)",
    # One active run per subject: the row goes when its run ends.
    f"CREATE TABLE subjects (subject TEXT PRIMARY KEY, {_RUN})",
    "CREATE INDEX subjects_by_run ON subjects (run)",
    f"CREATE TABLE attempts ({_RUN}, key TEXT NOT NULL, attempt BIGINT NOT NULL, PRIMARY KEY (run, key))",
    f"""CREATE TABLE steps (
        place {{serial}},
        {_RUN},
        id TEXT NOT NULL,
        key TEXT NOT NULL,
        verb TEXT NOT NULL,
        name TEXT NOT NULL,
        title TEXT NOT NULL,
        attempt BIGINT NOT NULL,
        position BIGINT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed')),
        started_at DOUBLE PRECISION NOT NULL,
        ended_at DOUBLE PRECISION,
        summary TEXT NOT NULL,
        result TEXT,
        UNIQUE (run, id)
    )""",
    # No reference to runs: a fork gets its inheritance before a worker may see it.
    "CREATE TABLE copies (run TEXT NOT NULL, key TEXT NOT NULL, result TEXT NOT NULL, PRIMARY KEY (run, key))",
    f"""CREATE TABLE branches (
        place {{serial}}, {_RUN}, id TEXT NOT NULL, parent TEXT, made_from TEXT NOT NULL, UNIQUE (run, id)
    )""",
    f"""CREATE TABLE jobs (
        place {{serial}},
        {_RUN},
        id TEXT NOT NULL,
        step TEXT NOT NULL,
        name TEXT NOT NULL,
        agent TEXT NOT NULL,
        turn BIGINT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('started', 'ended', 'lost')),
        ending TEXT NOT NULL,
        exit BIGINT,
        seconds DOUBLE PRECISION NOT NULL,
        usage TEXT NOT NULL,
        UNIQUE (run, id)
    )""",
    f"CREATE TABLE evidence (place {{serial}}, {_RUN}, id TEXT NOT NULL, document TEXT NOT NULL, UNIQUE (run, id))",
    f"CREATE TABLE findings (place {{serial}}, {_RUN}, id TEXT NOT NULL, document TEXT NOT NULL, UNIQUE (run, id))",
    f"""CREATE TABLE effects (
        place {{serial}},
        {_RUN},
        id TEXT NOT NULL,
        kind TEXT NOT NULL,
        target TEXT NOT NULL,
        marker TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('intended', 'done')),
        result TEXT,
        UNIQUE (run, id)
    )""",
    f"""CREATE TABLE decisions (
        place {{serial}},
        {_RUN},
        key TEXT NOT NULL,
        text TEXT NOT NULL,
        choices TEXT NOT NULL,
        answer TEXT,
        answered_by TEXT NOT NULL,
        reason TEXT NOT NULL,
        asked_at DOUBLE PRECISION NOT NULL,
        answered_at DOUBLE PRECISION,
        UNIQUE (run, key)
    )""",
    # `key` is NULL when the event may be told again.
    f"""CREATE TABLE events (
        seq BIGINT PRIMARY KEY, {_RUN}, at DOUBLE PRECISION NOT NULL, key TEXT, event TEXT NOT NULL, UNIQUE (run, key)
    )""",
    "CREATE INDEX events_by_run ON events (run, seq)",
)

_JOBS_OF_AGENTS = (
    "ALTER TABLE jobs ADD COLUMN branch TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN private TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN at DOUBLE PRECISION NOT NULL DEFAULT 0",
    "CREATE INDEX jobs_by_time ON jobs (at)",
)

_EXPLAINED_CHOICES = ("ALTER TABLE decisions ADD COLUMN explained TEXT NOT NULL DEFAULT '[]'",)

_ARRIVALS = (
    "ALTER TABLE runs ADD COLUMN called_off TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE deliveries (id TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL)",
    # No reference to runs: what asks for a run is there before the run, and tells of it after.
    """CREATE TABLE arrivals (
        place {serial},
        id TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        by_login TEXT NOT NULL,
        bot BIGINT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        wish TEXT NOT NULL,
        comment TEXT,
        delivery TEXT NOT NULL,
        run TEXT NOT NULL,
        fate TEXT NOT NULL,
        reason TEXT NOT NULL,
        seen_at DOUBLE PRECISION NOT NULL
    )""",
    "CREATE INDEX arrivals_by_fate ON arrivals (fate)",
    "CREATE INDEX arrivals_by_run ON arrivals (run)",
    # Which issues are known to have the label, so that having it still is no news.
    "CREATE TABLE labelled (subject TEXT PRIMARY KEY, since DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE cursors (name TEXT PRIMARY KEY, instant DOUBLE PRECISION NOT NULL)",
    # What we claimed on the forge, written before the claim is.
    """CREATE TABLE holds (
        run TEXT PRIMARY KEY, subject TEXT NOT NULL, holder TEXT NOT NULL, at DOUBLE PRECISION NOT NULL
    )""",
)

_SEVERAL_HOLDS = (
    "ALTER TABLE arrivals ADD COLUMN said TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE arrivals ADD COLUMN tries BIGINT NOT NULL DEFAULT 0",
    # A label that stands for a text that is not there any more.
    "ALTER TABLE labelled ADD COLUMN spent BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE holds RENAME TO former_holds",
    # `until`: so long somebody is about to begin the run.
    """CREATE TABLE holds (
        run TEXT NOT NULL,
        subject TEXT NOT NULL,
        holder TEXT NOT NULL,
        at DOUBLE PRECISION NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('held', 'claimed', 'leaving', 'refused')),
        until DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (subject, holder)
    )""",
    """INSERT INTO holds (run, subject, holder, at, state, until)
    SELECT run, subject, holder, at, 'claimed', 0 FROM former_holds""",
    "DROP TABLE former_holds",
    "CREATE INDEX holds_by_run ON holds (run)",
)

SCHEMAS: Sequence[Sequence[str]] = (_FIRST, _JOBS_OF_AGENTS, _EXPLAINED_CHOICES, _ARRIVALS, _SEVERAL_HOLDS)
