"""Databases: open, transact, translate errors, migrate. They know nothing of tasks."""
