"""Planted bugs of what is decided: leases, and what becomes of tasks."""

from typing import Final

from tests.chaos.harness_planted import Bug

_SQLITE: Final = "engine/stores/sqlite"
_CONTRACT: Final = "tests/contract/test_store_sqlite.py::TestSqliteStore::"
_UNIT: Final = "tests/unit"
_STORE: Final = f"{_UNIT}/engine/stores/"
_JOINS: Final = f"{_STORE}test_sqlite_joins.py::"
_GROUPS: Final = f"{_UNIT}/databases/test_group_commit.py::"
_STATE: Final = f"{_UNIT}/core/test_state.py::"

LEASES: Final = (
    Bug(
        "a holder settles without naming its fence",
        "core/state.py",
        "if (asked or rule.by_holder) and asked != fence:",
        "if asked and asked != fence:",
        (
            f"{_STATE}test_a_verdict_of_the_truth_table",
            f"{_CONTRACT}test_a_holder_with_another_fence_is_refused_by_every_rule",
        ),
    ),
    Bug(
        "a holder settles with the fence of an older lease",
        "core/state.py",
        "and asked != fence:",
        "and asked > fence:",
        (
            f"{_STATE}test_a_verdict_of_the_truth_table",
            f"{_CONTRACT}test_the_old_holder_cannot_settle_what_another_has_now",
        ),
    ),
    Bug(
        "a holder settles after its lease has ended, before anybody noticed",
        "core/state.py",
        "if rule.by_holder and status in LEASED and not lease_valid:",
        "if rule.by_holder and status in LEASED and lease_valid is None:",
        (
            f"{_STATE}test_a_verdict_of_the_truth_table",
            f"{_CONTRACT}test_a_holder_whose_node_is_silent_is_refused_before_anybody_noticed",
        ),
    ),
    Bug(
        "what one holder is given at a moment counts for no limit of the next one",
        f"{_SQLITE}/claiming.py",
        "room = policy.max_active - step.leased(queue.id) - given",
        "room = policy.max_active - step.leased(queue.id)",
        (f"{_STORE}test_sqlite_exchanges.py::test_a_full_limit_lets_each_take_what_those_before_it_have_left",),
    ),
    Bug(
        "two holders that ask at one moment are given the same task",
        f"{_SQLITE}/claiming.py",
        "        self._lines.take_off(heads)\n",
        "",
        (
            f"{_STORE}test_sqlite_exchanges.py::test_a_queue_that_is_named_twice_is_one_queue",
            f"{_STORE}test_sqlite_exchanges.py::test_nobody_is_sent_to_wait_for_a_task_that_another_has_just_got",
        ),
    ),
    Bug(
        "a node that asks several times at one moment gets more than its slots",
        f"{_SQLITE}/claiming.py",
        "            self._held[node.id] += len(chosen.heads)\n",
        "            self._held[node.id] += 0\n",
        (f"{_STORE}test_sqlite_exchanges.py::test_one_node_that_asks_several_times_gets_no_more_than_its_slots",),
    ),
    Bug(
        "a node beats without its token",
        f"{_SQLITE}/joining.py",
        "if not operator and not hmac.compare_digest(str(token), change.token):",
        "if not operator and not token:",
        (f"{_CONTRACT}test_only_the_node_itself_speaks_for_it",),
    ),
    Bug(
        "tokens are compared with ==",
        f"{_SQLITE}/joining.py",
        "elif hmac.compare_digest(str(token), said.token):",
        "elif token == said.token:",
        ("tests/architecture/test_tokens.py::test_tokens_are_compared_in_constant_time",),
    ),
    Bug(
        "a lease is touched without its fence",
        f"{_SQLITE}/noting.py",
        "if note.fence != row.fence or row.status",
        "if row.status",
        (f"{_CONTRACT}test_every_note_with_a_wrong_fence_is_stale_and_changes_nothing",),
    ),
    Bug(
        "a note is taken after the lease has ended",
        f"{_SQLITE}/noting.py",
        " or not lease_valid(step, row.holder, row.until)",
        "",
        (
            f"{_CONTRACT}test_every_note_of_a_silent_node_is_stale",
            f"{_CONTRACT}test_every_note_after_the_touched_lease_has_ended_is_stale",
        ),
    ),
    Bug(
        "a task is submitted under a lease that has ended",
        f"{_SQLITE}/guard.py",
        " and lease_valid(step, holder, until):",
        ":",
        (f"{_CONTRACT}test_a_submission_under_a_lease_needs_that_lease",),
    ),
    Bug(
        "a claim does not raise the fence",
        f"{_SQLITE}/queries/claim_take_few.sql",
        "fence = fence + 1,",
        "fence = max(fence, 1),",
        (f"{_CONTRACT}test_each_lease_has_the_next_fence",),
    ),
    Bug(
        "the reaper does not raise the fence",
        f"{_SQLITE}/moving.py",
        '"fence": int(shape.rule in _LOSSES)',
        '"fence": 0',
        (f"{_CONTRACT}test_a_lease_that_was_taken_back_is_dead_also_when_the_node_lives",),
    ),
    Bug(
        "leases are timed by the wall clock",
        "databases/sqlite/scribe.py",
        "now = self._clock.now()\n        self._reserve",
        "now = self._clock.wall()\n        self._reserve",
        (
            f"{_CONTRACT}test_no_jump_of_the_wall_clock_ends_or_extends_a_lease",
            f"{_GROUPS}test_the_time_of_a_session_is_the_clock_of_the_owner",
        ),
    ),
    Bug(
        "moments are read from the clock that people set",
        "runtime/clock.py",
        "time.clock_gettime_ns(_boot_clock())",
        "time.time_ns()",
        (
            f"{_UNIT}/runtime/test_clock.py::test_moments_are_of_the_clock_that_nobody_sets_and_that_counts_suspended_time",
        ),
    ),
    Bug(
        "leases of another boot go on",
        f"{_SQLITE}/store.py",
        "        _void_leases(session, shelf)\n",
        "",
        (f"{_CONTRACT}test_leases_of_another_boot_are_void",),
    ),
    Bug(
        "a beat that comes too late revives the node",
        f"{_SQLITE}/joining.py",
        "if node is None or not node.live(step.now):",
        "if node is None:",
        (f"{_CONTRACT}test_a_beat_that_comes_too_late_revives_nothing",),
    ),
)

TASKS: Final = (
    Bug(
        "the loss of a node uses up an attempt",
        "core/state.py",
        '_rule("lose", LEASED, _S.QUEUED, Fact.LOST, Counter.TIMEOUTS)',
        '_rule("lose", LEASED, _S.QUEUED, Fact.LOST, Counter.TIMEOUTS, Counter.ATTEMPTS)',
        (f"{_CONTRACT}test_a_crash_is_counted_apart_from_attempts",),
    ),
    Bug(
        "a task is blamed for a node that left in order",
        "engine/upkeep.py",
        "left=lapsed.left",
        "left=False",
        (
            f"{_UNIT}/engine/test_blame.py::test_a_started_task_is_blamed_for_a_node_that_died_and_not_for_one_that_left",
            f"{_UNIT}/engine/test_upkeep.py::test_a_node_that_left_is_blamed_for_nothing",
        ),
    ),
    Bug(
        "a function that only lay in its process is blamed",
        "node/starting.py",
        "for key in one.executing if key in held",
        "for key in held",
        (f"{_UNIT}/node/test_node_taking.py::test_a_node_of_commands_and_functions_tells_only_what_has_truly_begun",),
    ),
    Bug(
        "a task that kills its nodes goes round for ever",
        "core/outcome.py",
        "if loss.blamed and crashed_enough(",
        "if not loss and crashed_enough(",
        (f"{_UNIT}/engine/test_upkeep.py::test_a_task_that_kills_every_node_is_held_at_last",),
    ),
    Bug(
        "a final status can change",
        "core/state.py",
        '_rule("kick", [_S.HELD, _S.DELAYED],',
        '_rule("kick", [_S.HELD, _S.DELAYED, _S.FAILED],',
        (f"{_STATE}test_a_rule_starts_at_statuses_that_are_all_leased_or_all_waiting[kick]",),
    ),
    Bug(
        "children are released twice",
        f"{_SQLITE}/cascade.py",
        "[Child._make(row) for row in rows]",
        "[Child._make(row)._replace(status=Status.BLOCKED) for row in rows]",
        (f"{_JOINS}test_the_second_parent_of_a_join_of_any_changes_nothing_wherever_the_child_is_by_then",),
    ),
    Bug(
        "a child is released by the first of its parents",
        "core/release.py",
        "waits = child.waits - closed.edges",
        "waits = 0",
        (f"{_CONTRACT}test_a_child_waits_for_all_its_parents",),
    ),
    Bug(
        "what is left to follow is followed again",
        f"{_SQLITE}/cascade.py",
        "after = rows[self.budget - 1][0] if self.budget else parent.after",
        "after = parent.after",
        (f"{_JOINS}test_children_of_very_many_wait_on_for_their_other_parent",),
    ),
    Bug(
        "a limit is counted without the step's own leases",
        f"{_SQLITE}/step.py",
        "return self.shelf.leased(queue) + self.tally.get((queue, -1), 0) + self.tally.get((queue, 0), 0)",
        "return self.shelf.leased(queue)",
        (f"{_CONTRACT}test_a_place_freed_in_a_step_is_given_in_the_same_step",),
    ),
    Bug(
        "a limit is not counted for tasks that are claimed by name",
        f"{_SQLITE}/claiming.py",
        "room = self._room(node, step.shelf.queues[head.queue].queue) - given[head.queue]",
        "room = self._room(node, step.shelf.queues[head.queue].queue)",
        (f"{_CONTRACT}test_named_tasks_obey_the_limits",),
    ),
    Bug(
        "the audit log is not verified",
        "core/audit.py",
        "if line.position != position or line.hash != expected:",
        "if line.position != position:",
        (
            f"{_UNIT}/core/test_audit.py::test_a_changed_line_is_found",
            f"{_UNIT}/engine/test_audit.py::test_a_changed_missing_or_exchanged_line_is_found",
        ),
    ),
    Bug(
        "the lines of the audit log are not chained",
        "core/audit.py",
        "hashlib.sha256(before + line.encode())",
        "hashlib.sha256(line.encode())",
        (f"{_UNIT}/core/test_audit.py::test_a_line_that_was_forged_with_its_hash_is_found_at_the_next",),
    ),
    Bug(
        "a mark on MongoDB is believed whichever server it was made under",
        "databases/mongo/journal.py",
        "certain = await self.server() == head.server",
        "certain = True",
        (
            f"{_UNIT}/databases/mongo/test_journal.py"
            "::test_a_mark_that_was_made_for_a_server_that_died_is_not_believed",
            f"{_UNIT}/databases/mongo/test_writer.py::test_what_a_server_that_died_has_forgotten_is_not_decided_upon",
        ),
    ),
    Bug(
        "a change on MongoDB is made before the one that it was built upon",
        "databases/mongo/journal.py",
        '{"$in": [change.seen, None]}',
        '{"$not": {"$gte": step}}',
        (f"{_UNIT}/databases/mongo/test_journal.py::test_a_change_is_not_made_before_the_one_it_was_built_upon",),
    ),
)
