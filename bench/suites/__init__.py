"""Suites: which loads are run together, and which goals they answer."""
