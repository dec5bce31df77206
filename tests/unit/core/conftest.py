"""Properties are checked without a stopwatch: a busy machine is no reason to fail."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
