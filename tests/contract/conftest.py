"""A failed assertion of a shipped suite says as much as one of a test file."""

import pytest

pytest.register_assert_rewrite("ganger.testing.contracts")
