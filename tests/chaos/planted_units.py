"""Planted bugs of what is kept: the disk, and units on their way to it."""

from typing import Final

from tests.chaos.harness_planted import Bug

_SQLITE: Final = "engine/stores/sqlite"
_CONTRACT: Final = "tests/contract/test_store_sqlite.py::TestSqliteStore::"
_BLOBS: Final = "tests/contract/test_blobs.py::test_blobs_keep_the_contract"
_UNIT: Final = "tests/unit"
_STORE: Final = f"{_UNIT}/engine/stores/"
_FAULTS: Final = f"{_UNIT}/databases/test_faults.py::"
_GROUPS: Final = f"{_UNIT}/databases/test_group_commit.py::"
_OPENING: Final = f"{_UNIT}/databases/test_durable_opening.py::"
_LETTERS: Final = f"{_UNIT}/databases/test_letters.py::"
_PEERS: Final = f"{_UNIT}/databases/test_peers.py::"

DISK: Final = (
    Bug(
        "an answer is given before the commit",
        "databases/sqlite/scribe.py",
        'self._probe("scribe.before_commit")',
        "[one.waiter.loop.call_soon_threadsafe(one.waiter.future.set_result, done.value) for one, done in answers]",
        (f"{_FAULTS}test_each_call_failed_once_gives_no_false_answer_and_the_handle_goes_on[-wal-xSync]",),
    ),
    Bug(
        "commits are not synced: synchronous=NORMAL",
        "databases/sqlite/file.py",
        '    if found != ("wal", 2):',
        '    connection.pragma("synchronous", "normal")\n    if found != ("wal", 2):',
        (f"{_FAULTS}test_a_failed_sync_is_told_to_the_whole_group_and_checked_before_the_file_is_served_again",),
    ),
    Bug(
        "the folder of a blob is not synced",
        "engine/blobs/draft.py",
        "os.fsync(folder)",
        "os.stat(folder)",
        (f"{_UNIT}/engine/test_blob_files.py::test_the_disk_is_asked_to_sync_the_file_and_then_the_folder",),
    ),
    Bug(
        "the folder of a new database is not synced",
        "databases/sqlite/file.py",
        "        _sync_folder(self._place)\n",
        "",
        (f"{_OPENING}test_the_folder_of_a_new_file_is_synced_before_the_file_is_served",),
    ),
    Bug(
        "the owner goes on with a connection whose sync failed",
        "databases/sqlite/scribe.py",
        "self._file.poison()",
        "pass",
        (f"{_FAULTS}test_a_failed_sync_is_told_to_the_whole_group_and_checked_before_the_file_is_served_again",),
    ),
    Bug(
        "the heir is not told that the disk had failed",
        "databases/sqlite/file.py",
        "            self._report(False)\n",
        "",
        (f"{_OPENING}test_a_disk_that_failed_is_on_the_nameplate_until_the_file_was_checked",),
    ),
    Bug(
        "a blob is trusted without comparing its sums",
        "engine/blobs/reading.py",
        "if found != seal.sum(number):",
        "if not found:",
        (f"{_BLOBS}[stand_on_files-a_changed_byte_is_noticed_and_never_served]",),
    ),
    Bug(
        "new work is taken from the reserve of a full disk",
        "databases/sqlite/scribe.py",
        "if self._reserve.full and entry.operation.needs_space:",
        "if self._reserve.full and not entry.operation:",
        (f"{_FAULTS}test_a_full_disk_refuses_new_work_and_records_results_from_the_reserve",),
    ),
    Bug(
        "the letters of a process that died are left in its bag",
        "databases/sqlite/collecting.py",
        "            self._watched.add(path)\n",
        "",
        (f"{_LETTERS}test_a_letter_of_a_process_that_died_when_it_was_safe_is_run_by_the_owner",),
    ),
    Bug(
        "a letter that was found in a bag is run again when it comes",
        "databases/sqlite/collecting.py",
        "return unit._replace(again=True) if unit.identity in self._seen else unit",
        "return unit",
        (f"{_LETTERS}test_a_letter_that_was_read_from_its_bag_is_not_run_again_when_it_comes_at_last",),
    ),
    Bug(
        "the receipts of letters are forgotten before the letters are",
        "databases/sqlite/receipts.py",
        'return json.dumps([path.name.rpartition("-")[2] for path in find_bags(database)])',
        'return "[]"',
        (f"{_LETTERS}test_receipts_stay_as_long_as_there_is_a_bag",),
    ),
    Bug(
        "half a letter is taken for a whole one",
        "databases/sqlite/bag.py",
        "if len(body) < head.length or zlib.crc32(body, self.seed) != head.check:",
        "if len(body) < head.length:",
        (f"{_LETTERS}test_a_torn_letter_and_the_rest_of_older_ones_end_the_reading",),
    ),
    Bug(
        "a question that was taken back is answered all the same",
        "databases/sqlite/standing.py",
        "return lambda: self._stood.pop(number, None) is not None",
        "return lambda: self._stood.get(number) is not None",
        (f"{_UNIT}/databases/test_standing.py::test_one_that_is_taken_back_or_stands_with_another_process_is_not_run",),
    ),
    Bug(
        "a letter that met a full disk is dropped",
        "databases/sqlite/posting.py",
        "if isinstance(outcome.error, PASSING) and not self._is_closed:",
        "if False:",
        (f"{_LETTERS}test_a_letter_that_meets_a_full_disk_is_run_when_there_is_space_again",),
    ),
)

UNITS: Final = (
    Bug(
        "a unit that failed is not rolled back",
        "databases/sqlite/scribe.py",
        '            execute("ROLLBACK TO unit")\n',
        "",
        (f"{_GROUPS}test_a_unit_that_is_refused_leaves_nothing_and_hurts_nobody",),
    ),
    Bug(
        "a unit without an answer is run again: its receipt is ignored",
        "databases/sqlite/scribe.py",
        "if unit.again and (receipt",
        "if not unit and (receipt",
        (f"{_PEERS}test_a_unit_sent_twice_is_done_once_and_answered_twice_alike",),
    ),
    Bug(
        "receipts are not stored with the work",
        "databases/sqlite/scribe.py",
        "            self._store_receipts()\n            session.flush()",
        "            session.flush()",
        (f"{_PEERS}test_a_unit_that_wrote_nothing_leaves_no_receipt",),
    ),
    Bug(
        "a client sends its units to the next owner as if they were new",
        "databases/sqlite/link.py",
        "Call(sent.slot, sent.seq, True,",
        "Call(sent.slot, sent.seq, False,",
        (f"{_UNIT}/databases/test_resending.py::test_a_unit_without_an_answer_is_sent_again_as_the_same_unit",),
    ),
    Bug(
        "a client that becomes the owner runs its own units as if they were new",
        "databases/sqlite/outstanding.py",
        ", again=True)",
        ")",
        (f"{_UNIT}/databases/test_parts.py::test_units_that_go_to_an_owner_in_this_process_keep_their_identities",),
    ),
    Bug(
        "what was begun early is given back when nobody waits for it",
        "engine/line.py",
        "if not waiter.keeps(claimed):",
        "if claimed:",
        (f"{_UNIT}/engine/stores/test_sqlite_attending.py::test_what_was_begun_is_kept_by_one_who_has_left",),
    ),
    Bug(
        "what is held is begun before the commit",
        "node/functions/idling.py",
        "while note.word != seq:",
        "while False:",
        (f"{_UNIT}/node/test_function_early.py::test_what_is_forgotten_is_not_run",),
    ),
    Bug(
        "nobody is told that a commit failed",
        "databases/sqlite/standing.py",
        "each.waiter.void()",
        "each.waiter",
        (
            f"{_UNIT}/databases/test_standing.py::"
            "test_who_is_in_haste_hears_that_the_commit_failed_and_the_unit_stands_on",
        ),
    ),
    Bug(
        "answers for a client that does not read are kept without end",
        "databases/sqlite/peers.py",
        "peer.stream.unsent > self._limits.unsent_bytes",
        "peer.stream.unsent < 0",
        (f"{_UNIT}/databases/test_bounds.py::test_a_peer_that_does_not_read_is_dropped_when_too_much_waits_for_it",),
    ),
    Bug(
        "tallies are kept outside of the transaction",
        f"{_SQLITE}/step.py",
        "        self.session.rolled_back(lambda: shelf.add(tally, counters, -1))\n",
        "",
        (f"{_STORE}test_sqlite_undone.py::test_what_is_taken_back_is_not_counted",),
    ),
    Bug(
        "a key is looked for outside of the transaction",
        f"{_SQLITE}/submitting.py",
        "step.run(Q.key_holder, (key,))",
        "apsw.Connection(step.session.connection.filename).execute(Q.key_holder, (key,))",
        (f"{_STORE}test_sqlite_keys.py::test_of_two_that_submit_a_key_at_the_same_moment_one_is_refused",),
    ),
    Bug(
        "one key may have two rows",
        f"{_SQLITE}/migrations/0001_tasks.sql",
        "CREATE UNIQUE INDEX task_key",
        "CREATE INDEX task_key",
        (f"{_STORE}test_sqlite_keys.py::test_the_file_itself_keeps_no_two_tasks_of_one_key",),
    ),
    Bug(
        "a key that is taken is not refused",
        f"{_SQLITE}/submitting.py",
        "if holder is not None and task.on_conflict != OnConflict.RETURN:",
        "if holder is not None and not task.on_conflict:",
        (f"{_CONTRACT}test_a_taken_key_is_refused_with_its_owner_and_nothing_is_stored",),
    ),
    Bug(
        "a submit is acknowledged before it is witnessed",
        "engine/submit.py",
        "if witness is not None:",
        "if not reply:",
        (f"{_UNIT}/engine/test_submit.py::test_a_witness_that_fails_leaves_the_caller_without_an_acknowledgement",),
    ),
)
