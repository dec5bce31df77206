"""Where settings come from, and which wins."""

from pathlib import Path

import pytest

from ganger.assembly.jobs import read_plan
from ganger.assembly.location import is_remote
from ganger.assembly.settings import find_notify, find_passed, load, split_names
from ganger.core.errors import BadInput


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "ganger.toml").write_text('handover = "1m"\ngrace = "2m"\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    assert (load(below, {}).handover, load(below, {}).grace) == ("1m", "2m")
    assert load(below, {"GANGER_HANDOVER": "3m"}).handover == "3m"
    assert load(below, {"GANGER_HANDOVER": "3m"}, handover="4m").handover == "4m"


def test_a_server_counts_in_place_of_the_store_unless_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "ganger.toml").write_text('store = "sqlite:here.db"\n')
    far = {"GANGER_URL": "http://there:1"}

    assert load(tmp_path, far).store == "http://there:1"
    assert load(tmp_path, far | {"GANGER_STORE": "sqlite:x"}).store == "sqlite:x"
    assert load(tmp_path, far, store="sqlite:y").store == "sqlite:y"
    assert load(tmp_path, far, store="http://flag").store == "http://flag"
    assert is_remote(load(tmp_path, far))
    assert not is_remote(load(tmp_path, {}))


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    assert (load(tmp_path, {}).handover, load(tmp_path, {}).grace) == ("10m", "")


def test_a_number_in_the_file_needs_no_quotes(tmp_path: Path) -> None:
    (tmp_path / "ganger.toml").write_text("job_batch = 10\njob_tries = 5\n")

    plan = read_plan(load(tmp_path, {}))

    assert plan.policy == (10, 5)


def test_a_wrong_file_is_refused_with_the_names_that_are_known(tmp_path: Path) -> None:
    (tmp_path / "ganger.toml").write_text("handover = [10]\n")
    with pytest.raises(BadInput, match=r"known settings: .*handover"):
        load(tmp_path, {})


def test_the_socket_of_a_service_manager_is_in_the_environment() -> None:
    assert find_notify({"NOTIFY_SOCKET": "/run/notify"}) == "/run/notify"
    assert find_notify({"NOTIFY_SOCKET": ""}) is None
    assert find_notify({}) is None


def test_what_functions_find_in_their_environment_is_named(tmp_path: Path) -> None:
    (tmp_path / "ganger.toml").write_text('pass_env = ["DATABASE_URL", "AWS_*"]\nallow = ["mine.*", "ours.do"]\n')
    settings = load(tmp_path, {})
    given = {"DATABASE_URL": "x", "AWS_KEY": "y", "MY_AWS_KEY": "z", "PATH": "/bin"}

    assert find_passed(settings, given) == {"DATABASE_URL": "x", "AWS_KEY": "y"}
    assert split_names(settings.allow) == ("mine.*", "ours.do")
    assert find_passed(load(tmp_path, {"GANGER_PASS_ENV": "PATH"}), given) == {"PATH": "/bin"}
