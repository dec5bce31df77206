"""What the driver raises is said in our words."""

import pytest
from bson.errors import InvalidDocument
from pymongo import errors

from ganger.core.errors import (
    BadInput,
    GangerError,
    PayloadTooLarge,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TaskNotFound,
)
from ganger.databases.mongo.errors import is_lost, translate


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        (errors.AutoReconnect("gone"), StoreUnavailable),
        (errors.ServerSelectionTimeoutError("none"), StoreUnavailable),
        (errors.OperationFailure("no rights", 13), StoreReadOnly),
        (errors.OperationFailure("who are you", 18), StoreUnavailable),
        (errors.OperationFailure("not primary", 10107), StoreUnavailable),
        (errors.OperationFailure("disk", 14031), StoreFull),
        (errors.DocumentTooLarge("large"), PayloadTooLarge),
        (InvalidDocument("what is this"), BadInput),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "half"), BadInput),
        (errors.OperationFailure("odd", 1), StoreError),
    ],
)
def test_each_error_is_one_of_the_tree(foreign: Exception, ours: type[GangerError]) -> None:
    assert type(translate(foreign, "trying")) is ours


def test_one_of_the_tree_stays_as_it_is() -> None:
    error = TaskNotFound("there is no task 1")
    assert translate(error, "trying") is error


def test_only_a_server_that_is_gone_is_asked_again() -> None:
    assert is_lost(errors.AutoReconnect("gone"))
    assert is_lost(errors.OperationFailure("shutting down", 91))
    assert not is_lost(errors.OperationFailure("odd", 1))


def test_a_document_that_is_refused_is_not_shown() -> None:
    refused = {"index": 0, "code": 121, "errmsg": "Document failed validation", "op": {"spec": b"of somebody"}}

    said = translate(errors.BulkWriteError({"writeErrors": [refused]}), "submitting").message

    assert "Document failed validation" in said
    assert "somebody" not in said
