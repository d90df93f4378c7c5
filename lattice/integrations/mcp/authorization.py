"""OAuth with a user in between: where to send the user, and the way back in."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lattice.errors import OptionError

__all__ = ["Authorization"]


class Authorization:
    """Stands between an ``OAuthClientProvider`` of the official SDK and its host.

    With a callback handler of its own, the provider gets the code from there. Without one, the URL is pending until
    ``finish()`` brings the code.
    """

    def __init__(self, provider: Any) -> None:
        self.pending_url: str | None = None
        self.waiting = False
        self._tell_host = provider.context.redirect_handler
        self._ask_host = provider.context.callback_handler
        self._asked = asyncio.Event()
        self._answer: asyncio.Future[Any] | None = None
        self._state: str | None = None
        self._opening: asyncio.Task[None] | None = None
        provider.context.redirect_handler = self._redirect
        provider.context.callback_handler = self._wait

    async def open(self, opening: Coroutine[Any, Any, None]) -> None:
        """Await ``opening``, but return as soon as it has to wait for the user; it goes on meanwhile."""
        self._opening = asyncio.create_task(opening)
        self._opening.add_done_callback(_look)
        asked = asyncio.create_task(self._asked.wait())
        try:
            await asyncio.wait({self._opening, asked}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self._opening.cancel()
            raise
        finally:
            asked.cancel()
        if self._opening.done():
            await self._opening

    async def finish(self, code: str, state: str | None) -> bool:
        """Let the authorization that waits go on with this code; returns whether a connection was opened with it.

        Raises:
            OptionError: none waits.
        """
        if self._answer is None or self._answer.done():
            raise OptionError("finish_auth: no authorization is under way")
        from mcp.shared.auth import AuthorizationCodeResult  # noqa: PLC0415 - only who uses MCP pays for the import

        self.pending_url = None
        self._answer.set_result(AuthorizationCodeResult(code=code, state=state or self._state))
        if self._opening is None or self._opening.done():
            return False
        await asyncio.shield(self._opening)
        return True

    def give_up(self) -> None:
        """Stop waiting for the user."""
        if self._answer is not None:
            self._answer.cancel()
        if self._opening is not None and self._opening is not asyncio.current_task():
            self._opening.cancel()

    async def _redirect(self, url: str) -> None:
        self._state = parse_qs(urlsplit(url).query).get("state", [None])[0]
        if self._ask_host is None:
            self._answer = asyncio.get_running_loop().create_future()
            self.pending_url = url
        if self._tell_host is not None:
            await self._tell_host(url)

    async def _wait(self) -> Any:
        self.waiting = True
        try:
            if self._ask_host is not None:
                return await self._ask_host()
            assert self._answer is not None
            self._asked.set()
            return await self._answer
        finally:
            self.waiting = False
            self._asked.clear()


def _look(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # seen: whoever finishes the authorization hears of it, and perhaps nobody does
