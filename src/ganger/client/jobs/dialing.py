"""How a worker reaches its server, again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from ganger.client.jobs.place import Place
from ganger.core.errors import BadInput, NotAuthenticated, NotFound

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 30.0
_NOT_WANTED: Final = 1008

Converse = Callable[[ClientConnection], Awaitable[None]]


class Dialer:
    """Connects whenever there is no connection; the pauses grow until the server has let the worker in."""

    def __init__(self, place: Place, tell: Callable[[str], None], protocol: bytes | None = None) -> None:
        self._place = place
        self._tell = tell
        self._offered = None if protocol is None else [Subprotocol(protocol.decode())]
        self._pause = _FIRST_PAUSE
        self._is_in = False

    def reassure(self) -> None:
        """The server has let it in."""
        self._pause = _FIRST_PAUSE
        if not self._is_in:
            self._is_in = True
            self._tell(f"takes jobs at {self._place.address}; stop it with Ctrl-C")

    async def dial(self, converse: Converse, over: asyncio.Event) -> None:
        """Converse over one connection after the other, until it is over.

        Raises NotAuthenticated, NotFound and BadInput, which no patience helps against.
        """
        while not over.is_set():
            await self._try(converse, over)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause):
                    await over.wait()
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    async def _try(self, converse: Converse, over: asyncio.Event) -> None:
        address = self._place.address
        try:
            async with connect(address, max_size=None, compression=None, subprotocols=self._offered) as socket:
                self._check(socket)
                await _converse(converse, socket)
        except ConnectionClosed as closed:
            self._explain(closed, over)
        except InvalidStatus as refused:
            self._judge(refused)
        except (OSError, InvalidHandshake, EOFError, TimeoutError) as error:
            self._tell(f"{address} cannot be reached: {error}")

    def _check(self, socket: ClientConnection) -> None:
        if self._offered is not None and socket.subprotocol is None:
            raise BadInput(f"{self._place.address} speaks protocol 1 alone: give --protocol 1", field="protocol")

    def _judge(self, refused: InvalidStatus) -> None:
        status = refused.response.status_code
        if status == 404:
            raise NotFound(f"no workers are taken at {self._place.address}: see the setting job_types of the server")
        self._tell(f"{self._place.address} answers {status}")

    def _explain(self, closed: ConnectionClosed, over: asyncio.Event) -> None:
        told = closed.rcvd
        if told is not None and told.code == _NOT_WANTED and "token" in told.reason:
            raise NotAuthenticated(f"the server says: {told.reason}")
        if not over.is_set():
            self._tell(f"the connection ended: {told.reason or told.code if told else 'without a word'}")


async def _converse(converse: Converse, socket: ClientConnection) -> None:
    try:
        await converse(socket)
    except asyncio.CancelledError:
        # It ends by its own will, and says so: then its jobs need not wait for it.
        await socket.close()
        raise
