SELECT least(
    (SELECT min(until) FROM task WHERE until > $1),
    (SELECT min($1 + greatest(1, term - $2)) FROM task WHERE until <= $1 AND term > $2)
)
