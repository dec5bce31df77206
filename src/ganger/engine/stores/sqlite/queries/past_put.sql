UPDATE task SET
    created = :created, started = :started, ended = :ended, modified = :ended, reason = :reason, branch = :branch,
    attempts = :attempts, crashes = :crashes
WHERE id = :id
