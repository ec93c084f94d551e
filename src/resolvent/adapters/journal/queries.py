"""Every statement of the journal, by name; one text for SQLite and Postgres."""

_RUN_COLUMNS = (
    "id, playbook, subject, title, state, outcome, reason, plays, cancelling, called_off, forked_from, "
    "created_at, updated_at, result, inputs"
)

ADD_RUN = f"""
INSERT INTO runs ({_RUN_COLUMNS})
VALUES (:id, :playbook, :subject, :title, :state, :outcome, :reason, :plays, :cancelling, :called_off, :forked_from,
        :created_at, :updated_at, :result, :inputs)
ON CONFLICT (id) DO NOTHING
"""
RUN = f"SELECT {_RUN_COLUMNS} FROM runs WHERE id = :id"
RUNS = f"SELECT {_RUN_COLUMNS} FROM runs ORDER BY created_at DESC, id DESC LIMIT :limit"
RUNS_IN = f"SELECT {_RUN_COLUMNS} FROM runs WHERE state IN ({{states}}) ORDER BY created_at DESC, id DESC LIMIT :limit"
DUE = """
SELECT id, plays, state, cancelling FROM runs r
WHERE state IN ('queued', 'running') OR (state = 'waiting' AND (cancelling = 1
  OR NOT EXISTS (SELECT 1 FROM decisions d WHERE d.run = r.id AND d.answer IS NULL)))
ORDER BY created_at, id
"""
PUBLISHED = """
SELECT 1 AS yes FROM effects WHERE kind = 'publish' AND state = 'done' AND result LIKE :commit LIMIT 1
"""
RUNS_NAMED_LIKE = """
SELECT id FROM runs WHERE substr(id, 1, length(:prefix)) = :prefix ORDER BY created_at DESC, id LIMIT :limit
"""
RUN_STATE = "SELECT state FROM runs WHERE id = :run"
SET_STATE = """
UPDATE runs SET state = :state, reason = :reason, updated_at = :now WHERE id = :run AND state <> 'ended'
"""
END_RUN = """
UPDATE runs SET state = 'ended', outcome = :outcome, reason = :reason, result = :result, updated_at = :now
WHERE id = :run AND state <> 'ended'
"""
REOPEN = """
UPDATE runs SET state = 'queued', plays = plays + 1, outcome = '', reason = '', result = NULL, updated_at = :now,
                cancelling = CASE WHEN state = 'ended' THEN 0 ELSE cancelling END,
                called_off = CASE WHEN state = 'ended' THEN '' ELSE called_off END
WHERE id = :run AND state IN ('ended', 'waiting')
"""
REFREEZE = "UPDATE runs SET inputs = :inputs, updated_at = :now WHERE id = :run AND state <> 'running'"
# The first reason stays.
ASK_TO_CANCEL = """
UPDATE runs SET cancelling = 1, called_off = CASE WHEN cancelling = 0 THEN :reason ELSE called_off END,
                updated_at = :now
WHERE id = :run AND state <> 'ended'
"""
# Changes nothing, and holds the row until the end of the transaction.
HOLD_ACTIVE = "UPDATE runs SET plays = plays WHERE id = :run AND state <> 'ended'"
DELETE_ENDED = "DELETE FROM runs WHERE id = :run AND state = 'ended'"
DELETE_COPIES = "DELETE FROM copies WHERE run = :run"

CLAIM = "INSERT INTO subjects (subject, run) VALUES (:subject, :run) ON CONFLICT (subject) DO NOTHING"
HOLDER = "SELECT run FROM subjects WHERE subject = :subject"
RELEASE = "DELETE FROM subjects WHERE run = :run"

ATTEMPT = "SELECT attempt FROM attempts WHERE run = :run AND key = :key"
RAISE_ATTEMPT = """
INSERT INTO attempts (run, key, attempt) VALUES (:run, :key, :attempt)
ON CONFLICT (run, key) DO UPDATE SET attempt = excluded.attempt WHERE attempts.attempt < excluded.attempt
"""

# The first start stays, and a verb that is played again does not reopen what has ended.
SAVE_STEP = """
INSERT INTO steps (run, id, key, verb, name, title, attempt, position, state, started_at, ended_at, summary, result)
VALUES (:run, :id, :key, :verb, :name, :title, :attempt, :position, :state, :started_at, :ended_at, :summary, :result)
ON CONFLICT (run, id) DO UPDATE SET
  title = excluded.title, state = excluded.state, ended_at = excluded.ended_at, summary = excluded.summary,
  result = excluded.result
WHERE excluded.state <> 'running' OR steps.state = 'running'
"""
STEPS = """
SELECT id, run, key, verb, name, title, attempt, position, state, started_at, ended_at, summary, result
FROM steps WHERE run = :run ORDER BY place
"""

COPY_RESULT = """
INSERT INTO copies (run, key, result) VALUES (:run, :key, :result)
ON CONFLICT (run, key) DO UPDATE SET result = excluded.result
"""
COPIED_RESULT = "SELECT result FROM copies WHERE run = :run AND key = :key"

SAVE_BRANCH = """
INSERT INTO branches (run, id, parent, made_from) VALUES (:run, :id, :parent, :commit)
ON CONFLICT (run, id) DO UPDATE SET parent = excluded.parent, made_from = excluded.made_from
"""
BRANCHES = 'SELECT id, parent, made_from AS "commit" FROM branches WHERE run = :run ORDER BY place'

SAVE_JOB = """
INSERT INTO jobs (run, id, step, name, agent, turn, state, ending, exit, seconds, usage, branch, private, at)
VALUES (:run, :id, :step, :name, :agent, :turn, :state, :ending, :exit, :seconds, :usage, :branch, :private, :at)
ON CONFLICT (run, id) DO UPDATE SET
  state = excluded.state, ending = excluded.ending, exit = excluded.exit, seconds = excluded.seconds,
  usage = excluded.usage, at = excluded.at
WHERE excluded.state <> 'started' OR jobs.state = 'started'
"""
JOBS = """
SELECT id, run, step, name, agent, turn, state, ending, exit, seconds, usage, branch, private, at
FROM jobs WHERE run = :run ORDER BY place
"""
JOBS_OVER = """
SELECT id, run, step, name, agent, turn, state, ending, exit, seconds, usage, branch, private, at
FROM jobs WHERE at >= :since AND at < :until AND agent <> '' ORDER BY at, run, id
"""
USAGE_SINCE = "SELECT usage FROM jobs WHERE at >= :since"

# What was seen once is not seen otherwise later.
SAVE_EVIDENCE = """
INSERT INTO evidence (run, id, document) VALUES (:run, :id, :document) ON CONFLICT (run, id) DO NOTHING
"""
EVIDENCE = "SELECT document FROM evidence WHERE run = :run ORDER BY place"

SAVE_FINDING = """
INSERT INTO findings (run, id, document) VALUES (:run, :id, :document)
ON CONFLICT (run, id) DO UPDATE SET document = excluded.document
"""
FINDINGS = "SELECT document FROM findings WHERE run = :run ORDER BY place"

SAVE_EFFECT = """
INSERT INTO effects (run, id, kind, target, marker, state, result)
VALUES (:run, :id, :kind, :target, :marker, :state, :result)
ON CONFLICT (run, id) DO UPDATE SET
  kind = excluded.kind, target = excluded.target, marker = excluded.marker, state = excluded.state,
  result = excluded.result
WHERE excluded.state = 'done' OR effects.state = 'intended'
"""
EFFECTS = "SELECT id, run, kind, target, marker, state, result FROM effects WHERE run = :run ORDER BY place"

_DECISION_COLUMNS = "run, key, text, choices, explained, answer, answered_by, reason, asked_at, answered_at"
ASK = """
INSERT INTO decisions (run, key, text, choices, explained, answered_by, reason, asked_at)
VALUES (:run, :key, :text, :choices, :explained, '', '', :at)
ON CONFLICT (run, key) DO NOTHING
"""
DECISION = f"SELECT {_DECISION_COLUMNS} FROM decisions WHERE run = :run AND key = :key"
DECISIONS = f"SELECT {_DECISION_COLUMNS} FROM decisions WHERE run = :run ORDER BY place"
DECIDE = """
UPDATE decisions SET answer = :answer, answered_by = :by, reason = :reason, answered_at = :at
WHERE run = :run AND key = :key AND answer IS NULL
"""
WITHDRAW = "DELETE FROM decisions WHERE run = :run AND (answer = :answer OR answer IS NULL)"

TOLD = "SELECT seq FROM events WHERE run = :run AND key = :key"
TELL = """
INSERT INTO events (seq, run, at, key, event) VALUES (:seq, :run, :at, :key, :event) ON CONFLICT DO NOTHING
"""
EVENTS = "SELECT seq, run, at, event FROM events WHERE seq > :after ORDER BY seq LIMIT :limit"
EVENTS_OF = "SELECT seq, run, at, event FROM events WHERE run = :run AND seq > :after ORDER BY seq LIMIT :limit"
