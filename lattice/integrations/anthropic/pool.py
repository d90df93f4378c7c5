"""SDK clients, shared: one per endpoint, key and event loop; closed when it is idle or the loop ends."""

import asyncio
import hashlib
import importlib
import random
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from lattice.errors import OptionError
from lattice.model import provider_gate
from lattice.redaction import remember_secrets

__all__ = ["Endpoint", "SharedClient", "borrow_client", "close_idle_clients"]

API_VERSION = "2023-06-01"
"""The wire that is spoken here, and by compatible providers; the SDK's own default moves with its releases."""

_NO_KEY = "There is no usable API key (pass api_key=..., or set the environment variable ANTHROPIC_API_KEY)"

_IDLE_SECONDS = 60.0

Endpoint = tuple[str | None, str | None, tuple[tuple[str, str], ...]]
"""API key, base URL and extra headers; None leaves the first two to the SDK's environment variables."""


class SharedClient:
    """One SDK client and who uses it; ``hold_off()`` makes all its users wait."""

    def __init__(self, sdk: ModuleType, client: Any) -> None:
        self.sdk = sdk
        self.client = client
        self.provider = _digest(client)
        self.users = 0
        self.timer: asyncio.TimerHandle | None = None
        self._closed_until = 0.0
        self._spread = 0.0

    async def hold_off(self, seconds: float) -> None:
        """Let no request start for so long, here or in processes that share the key: the provider has refused one."""
        self._closed_until = max(self._closed_until, time.monotonic() + seconds)
        self._spread = seconds
        gate = provider_gate.get()
        if gate is not None:
            await gate.hold_off(self.provider, seconds)

    async def admission(self) -> None:
        """Return when a request may start; those that waited start one by one, not all at once."""
        wait = self._closed_until - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait + random.uniform(0, self._spread))  # noqa: S311 - jitter
        gate = provider_gate.get()
        if gate is not None:
            await gate.admission(self.provider)


class _LoopClients:
    """The clients of one event loop."""

    def __init__(self) -> None:
        self.clients: dict[Endpoint, SharedClient] = {}
        self.keeper: AsyncGenerator[None] | None = None

    async def borrow(self, endpoint: Endpoint) -> SharedClient:
        shared = self.clients.get(endpoint)
        if shared is None:
            sdk = await _load_sdk()
            shared = self.clients.get(endpoint) or SharedClient(sdk, _make_client(sdk, endpoint))
            self.clients[endpoint] = shared
        if self.keeper is None:
            self.keeper = self._until_the_loop_ends()
            await anext(self.keeper)
        if shared.timer is not None:
            shared.timer.cancel()
            shared.timer = None
        shared.users += 1
        return shared

    def give_back(self, endpoint: Endpoint, shared: SharedClient) -> None:
        shared.users -= 1
        if shared.users == 0:
            loop = asyncio.get_running_loop()
            shared.timer = loop.call_later(_IDLE_SECONDS, self._retire, endpoint, loop)

    def _retire(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        shared = self.clients.get(endpoint)
        if shared is not None and shared.users == 0:
            del self.clients[endpoint]
            task = loop.create_task(shared.client.close())
            _closing.add(task)
            task.add_done_callback(_closing.discard)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None]:
        # A loop that shuts down closes the async generators that are still open: no task has to linger for it.
        try:
            yield
        finally:
            clients, self.clients = self.clients, {}
            for shared in clients.values():
                if shared.timer is not None:
                    shared.timer.cancel()
                await shared.client.close()


_closing: set[asyncio.Task[None]] = set()
_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClients] = WeakKeyDictionary()


@asynccontextmanager
async def borrow_client(endpoint: Endpoint) -> AsyncGenerator[SharedClient]:
    """Lend the client of an endpoint for one request.

    Raises:
        OptionError: no credentials can be found, or the base URL is none.
    """
    loop = asyncio.get_running_loop()
    clients = _loops.get(loop)
    if clients is None:
        clients = _loops[loop] = _LoopClients()
    shared = await clients.borrow(endpoint)
    try:
        yield shared
    finally:
        clients.give_back(endpoint, shared)


async def close_idle_clients() -> None:
    """Close the clients of the running loop that nobody uses at the moment."""
    clients = _loops.get(asyncio.get_running_loop())
    for endpoint, shared in list(clients.clients.items()) if clients is not None else ():
        if shared.users == 0:
            if shared.timer is not None:
                shared.timer.cancel()
            del clients.clients[endpoint]  # type: ignore[union-attr]
            await shared.client.close()


async def _load_sdk() -> ModuleType:
    """Import the SDK in a thread: it takes a second, and the loop has other work to do."""
    return await asyncio.to_thread(importlib.import_module, "anthropic")


def _make_client(sdk: ModuleType, endpoint: Endpoint) -> Any:
    api_key, base_url, headers = endpoint
    try:
        client = sdk.AsyncAnthropic(api_key=api_key, base_url=base_url, max_retries=0, **_without_spans(sdk))
    except (sdk.AnthropicError, ValueError) as error:
        raise OptionError(f"{_NO_KEY}. The SDK found: {error}", cause=error) from error
    sent: dict[str, Any] = {"anthropic-version": API_VERSION}
    if client.api_key:
        # Providers agree on this header; the SDK's own choice depends on its release.
        sent |= {"x-api-key": client.api_key, "authorization": sdk.Omit()}
    sent |= {name.lower(): value for name, value in headers}
    remember_secrets([client.api_key, client.auth_token])
    client = client.with_options(default_headers=sent)
    if not _has_credentials(client):
        raise OptionError(f"{_NO_KEY} for {client.base_url}")
    return client


def _digest(client: Any) -> str:
    """Name an endpoint and its credentials without giving them away."""
    secret = client.api_key or client.auth_token or sorted(map(str, client.default_headers.items()))
    return hashlib.blake2b(f"{client.base_url}\n{secret}".encode(), digest_size=12).hexdigest()


def _without_spans(sdk: ModuleType) -> Mapping[str, Any]:
    # Newer SDKs make OpenTelemetry spans of their own; ours describe the same calls.
    return {"open_telemetry": False} if hasattr(sdk.AsyncAnthropic, "open_telemetry") else {}


def _has_credentials(client: Any) -> bool:
    if client.api_key or client.auth_token or getattr(client, "credentials", None) is not None:
        return True
    return any(name.lower() in {"x-api-key", "authorization"} for name in client.default_headers)
