"""The fake clock keeps its two clocks apart; the seeded entropy repeats."""

import pytest

from ganger.core.clock import Clock, Entropy
from ganger.testing import FakeClock, SeededEntropy


def test_it_is_a_clock_and_an_entropy() -> None:
    clock: Clock = FakeClock()
    entropy: Entropy = SeededEntropy()
    assert clock.now() == clock.now()
    assert 0 <= entropy.uniform() < 1


def test_time_passes_on_both_clocks() -> None:
    clock = FakeClock(now=10, wall=100)
    clock.advance(5)
    assert (clock.now(), clock.wall()) == (15, 105)


@pytest.mark.parametrize("jump", [3_600_000, -3_600_000])
def test_a_jump_of_the_wall_clock_leaves_the_boot_clock_alone(jump: int) -> None:
    clock = FakeClock(now=10, wall=10_000_000)
    clock.jump_wall(jump)
    assert (clock.now(), clock.wall()) == (10, 10_000_000 + jump)


def test_a_reboot_starts_another_boot_clock_under_another_name() -> None:
    clock = FakeClock(now=10, wall=100)
    before = clock.boot_id()
    clock.reboot(down=7)
    assert clock.boot_id() != before
    assert (clock.now(), clock.wall()) == (0, 107)


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match="backwards"):
        FakeClock().advance(-1)


def test_the_same_seed_draws_the_same() -> None:
    one, two, other = SeededEntropy(1), SeededEntropy(1), SeededEntropy(2)
    token = one.token(16)
    assert len(token) == 16
    assert two.token(16) == token != other.token(16)
    assert one.uniform() == two.uniform()
