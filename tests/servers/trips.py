"""Which exchanges with PostgreSQL are made in one round trip."""

import pytest

from ganger.databases.postgres import Session
from ganger.engine.store import Exchange, Exchanged
from ganger.engine.stores.postgres.presuming import Presumption


def watch_trips(monkeypatch: pytest.MonkeyPatch) -> list[Exchange]:
    """What is made in one round trip from now on, and is not nothing."""
    made: list[Exchange] = []
    run = Presumption.run

    async def watched(presumption: Presumption, session: Session) -> Exchanged | None:
        done = await run(presumption, session)
        if done is not None and (done.claimed or presumption.request.moves):
            made.append(presumption.request)
        return done

    monkeypatch.setattr(Presumption, "run", watched)
    return made
