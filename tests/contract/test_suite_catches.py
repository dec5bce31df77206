"""The suite is worth what it catches: bugs are planted in a store, one at a time, and the named test must fail."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from ganger.core.audit import START
from ganger.core.clock import Clock, Entropy, Moment
from ganger.core.event import Fact
from ganger.core.graph import Fate, Join, fate
from ganger.core.ids import QueueId, TaskId
from ganger.core.state import LEASED, RULES, Counter, Status, Verdict, judge
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore, claim, follows, graph, moves, nodes, notes, step, submit, upkeep
from ganger.engine.stores.memory.row import Row
from ganger.engine.stores.memory.step import Step
from ganger.engine.stores.memory.table import Journal
from ganger.engine.stores.memory.tables import StreamKey
from ganger.testing.contracts.store import StoreConformance

Patch = pytest.MonkeyPatch


class PlantedStore(StoreConformance):
    wall_for_boot = False

    @asynccontextmanager
    async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        yield MemoryStore(WallClock(clock) if self.wall_for_boot else clock, entropy)


class WallClock:
    """A clock that takes the wall clock for the boot clock."""

    def __init__(self, clock: Clock) -> None:
        self.wall = clock.wall
        self.boot_id = clock.boot_id

    def now(self) -> Moment:
        return Moment(self.wall())


def settle_without_a_fence(patch: Patch) -> None:
    patch.setattr(moves, "judge", lambda rule, status, fence, asked, valid: judge(rule, status, fence, fence, valid))


def never_ask_whether_the_lease_has_ended(patch: Patch) -> None:
    patch.setattr(Step, "lease_valid", lambda self, task: task.status in LEASED)


def write_without_a_fence(patch: Patch) -> None:
    patch.setattr(notes, "_judge", lambda step, row, note: Verdict.APPLIED)


def take_a_lease_back_without_raising_the_fence(patch: Patch) -> None:
    patch.setattr(moves, "_TAKING_BACK", frozenset())


def give_the_old_fence_again(patch: Patch) -> None:
    lease = claim._lease

    def give(step: Step, row: Row, claimant: Any) -> Row:
        return step.put(lease(step, row, claimant).having(fence=max(1, row.task.fence)))

    patch.setattr(claim, "_lease", give)


def read_the_wall_clock_for_leases(patch: Patch) -> None:
    patch.setattr(PlantedStore, "wall_for_boot", True)


def check_keys_elsewhere(patch: Patch) -> None:
    patch.setattr(submit, "_owner", lambda step, new, taken: None)


def keep_half_of_a_failed_step(patch: Patch) -> None:
    patch.setattr(Journal, "take_back", Journal.keep)


def count_an_event_as_one(patch: Patch) -> None:
    write_event = Step._write_event

    def write(self: Step, fact: Fact, queue: QueueId, *rest: Any) -> None:
        write_event(self, fact, queue, *rest)
        self.tables.tallies.put((queue, fact), 1)

    patch.setattr(Step, "_write_event", write)


def burn_an_attempt_when_a_node_is_lost(patch: Patch) -> None:
    lose = RULES["lose"]
    burning = type(lose)(lose.name, lose.sources, lose.target, lose.fact, adds=(*lose.adds, Counter.ATTEMPTS))
    patch.setattr(moves, "RULES", {**RULES, "lose": burning})


def release_a_child_with_its_first_parent(patch: Patch) -> None:
    patch.setattr(graph, "fate", lambda join, open_edges, held: Fate.LOST if held < 0 else Fate.READY)


def take_any_for_all(patch: Patch) -> None:
    patch.setattr(graph, "fate", lambda join, open_edges, held: fate(Join.ALL, open_edges, held))


def lose_a_join_of_any_with_its_first_parent(patch: Patch) -> None:
    patch.setattr(graph, "fate", lambda join, open_edges, held: fate(join, open_edges if held else 0, held))


def decide_again_about_what_is_ready(patch: Patch) -> None:
    decide = graph.decide

    def decide_again(step: Step, task: TaskId, never: Any) -> None:
        row = step.tables.rows[task]
        if row.task.status == Status.QUEUED:
            step.put(row.having(status=Status.BLOCKED))
        decide(step, task, never)

    patch.setattr(graph, "decide", decide_again)


def forget_how_a_node_is(patch: Patch) -> None:
    renew = nodes._renew
    patch.setattr(nodes, "_renew", lambda step, row, change: renew(step, row, change._replace(vitals=None)))


def forget_the_limits(patch: Patch) -> None:
    patch.setattr(claim, "_has_room", lambda step, queue, node: True)


def forget_to_park(patch: Patch) -> None:
    patch.setattr(Step, "settle_limits", lambda self: None)


def let_a_late_beat_revive(patch: Patch) -> None:
    patch.setattr(nodes, "_find", lambda step, change, operator: step.tables.nodes[change.id])


def prune_members_of_open_groups(patch: Patch) -> None:
    patch.setattr(upkeep, "_may_go", lambda step, task: True)


def break_the_chain(patch: Patch) -> None:
    patch.setattr(step, "chain", lambda before, position, at, act: START)


def allow_cycles(patch: Patch) -> None:
    patch.setattr(graph, "refuse_cycle", lambda step, start, goal: None)


def store_chunks_twice(patch: Patch) -> None:
    numbers = count()
    patch.setattr(notes, "_covered_until", lambda chunks, start: start)
    patch.setattr(notes, "StreamKey", lambda task, fence, stream, _: StreamKey(task, fence, stream, next(numbers)))


def keep_the_shorter_chunk(patch: Patch) -> None:
    known = lambda chunks, start: 1 << 60 if any(chunk.start == start for chunk in chunks) else start  # noqa: E731
    patch.setattr(notes, "_covered_until", known)


def follow_for_ever(patch: Patch) -> None:
    patch.setattr(follows, "forget_ended", lambda step: None)


PLANTED: Final = (
    (settle_without_a_fence, "test_a_holder_with_another_fence_is_refused_by_every_rule"),
    (settle_without_a_fence, "test_the_old_holder_cannot_settle_what_another_has_now"),
    (never_ask_whether_the_lease_has_ended, "test_a_holder_whose_node_is_silent_is_refused_before_anybody_noticed"),
    (never_ask_whether_the_lease_has_ended, "test_every_note_after_the_touched_lease_has_ended_is_stale"),
    (write_without_a_fence, "test_every_note_with_a_wrong_fence_is_stale_and_changes_nothing"),
    (take_a_lease_back_without_raising_the_fence, "test_a_lease_that_was_taken_back_is_dead_also_when_the_node_lives"),
    (give_the_old_fence_again, "test_each_lease_has_the_next_fence"),
    (read_the_wall_clock_for_leases, "test_no_jump_of_the_wall_clock_ends_or_extends_a_lease"),
    (check_keys_elsewhere, "test_a_taken_key_is_refused_with_its_owner_and_nothing_is_stored"),
    (keep_half_of_a_failed_step, "test_all_or_nothing_is_nothing_after_one_refusal"),
    (keep_half_of_a_failed_step, "test_a_refused_claim_takes_its_moves_back"),
    (keep_half_of_a_failed_step, "test_edits_are_all_made_or_none"),
    (count_an_event_as_one, "test_tallies_count_every_task_of_every_fact"),
    (burn_an_attempt_when_a_node_is_lost, "test_each_rule_adds_to_its_own_counters_alone"),
    (release_a_child_with_its_first_parent, "test_a_child_waits_for_all_its_parents"),
    (release_a_child_with_its_first_parent, "test_a_join_of_very_many_parents_is_released_by_the_last"),
    (take_any_for_all, "test_a_join_of_any_is_ready_with_its_first_and_lost_with_its_last"),
    (decide_again_about_what_is_ready, "test_a_join_of_any_that_is_ready_is_not_readied_again_nor_lost"),
    (lose_a_join_of_any_with_its_first_parent, "test_a_join_of_any_is_ready_with_its_first_and_lost_with_its_last"),
    (forget_how_a_node_is, "test_a_beat_tells_how_the_node_is_until_the_next_that_does"),
    (forget_the_limits, "test_a_queue_gives_no_more_than_its_limit_over_all_nodes"),
    (forget_to_park, "test_no_more_tasks_of_a_key_are_leased_than_its_limit"),
    (let_a_late_beat_revive, "test_a_beat_that_comes_too_late_revives_nothing"),
    (prune_members_of_open_groups, "test_members_are_kept_until_their_group_has_ended"),
    (break_the_chain, "test_every_request_that_carries_an_act_is_one_line_of_an_unbroken_chain"),
    (allow_cycles, "test_no_edge_can_close_a_cycle"),
    (store_chunks_twice, "test_a_chunk_that_is_sent_twice_is_stored_once"),
    (keep_the_shorter_chunk, "test_a_piece_that_is_sent_again_with_more_leaves_no_gap_and_no_double"),
    (follow_for_ever, "test_following_ends_by_itself_unless_it_is_said_again"),
)


@pytest.mark.parametrize(("plant", "test"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_bug_is_caught(plant: Callable[[Patch], None], test: str, monkeypatch: Patch, tmp_path: Path) -> None:
    assert passes(test, tmp_path)
    plant(monkeypatch)
    assert not passes(test, tmp_path)


def passes(test: str, folder: Path) -> bool:
    subject = PlantedStore()
    subject.folder = folder
    try:
        getattr(subject, test)()
    except (Exception, pytest.fail.Exception):
        return False
    return True
