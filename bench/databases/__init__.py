"""Ganger on the database servers that a team runs anyway, as the databases suite asks for it."""
