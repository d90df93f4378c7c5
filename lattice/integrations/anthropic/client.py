"""A ``ModelClient`` over the official Anthropic SDK, for Anthropic and for providers that speak its Messages API.

A call whose arguments are not JSON comes back marked; see ``conversion``.
"""

import asyncio
import builtins
import inspect
import os
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from lattice.encoding import encode
from lattice.errors import APIError, OptionError, TimeoutError  # noqa: A004 - the documented name
from lattice.integrations.anthropic.caching import add_breakpoints, caches_by_default
from lattice.integrations.anthropic.conversion import STRUCTURED_OUTPUTS_BETA, read_message, to_body
from lattice.integrations.anthropic.failures import error_answer, status_failure, transport_failure, unexpected_answer
from lattice.integrations.anthropic.pool import Endpoint, SharedClient, borrow_client, close_idle_clients
from lattice.integrations.anthropic.streaming import StreamAssembly, StreamRelay
from lattice.model import ModelRequest

__all__ = ["AnthropicClient"]

ANTHROPIC_URL = "https://api.anthropic.com"

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 60.0
_RATE_LIMIT_RETRIES = 8
_HOLD_OFF = (429, 529)
"""With a time to come back these concern everybody with the same key: nobody's request would fare better."""


class AnthropicClient:
    """Asks an Anthropic-compatible provider for the next assistant message.

    Args:
        api_key: the key; without one, the SDK's environment variables and profiles.
        base_url: where the provider is; without one, ``ANTHROPIC_BASE_URL``, then Anthropic.
        max_retries: how often a request is repeated after a failure that may pass: a broken connection, an overloaded
            provider, an error inside a stream. 0 switches it off. A 429 or 529 that says when to come back is
            repeated up to eight times, because waiting is all that it takes; all requests with the same key wait.
        prompt_caching: whether requests carry cache breakpoints, so that a long conversation is not paid for in full
            each turn; ``"auto"`` does so for Anthropic only.
        default_headers: more headers of each request.

    Clients with the same key, base URL and headers share their connections. Nothing is opened, and the SDK is not
    imported, before the first request.

    Raises:
        OptionError: an option cannot be used.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        max_retries: int = 2,
        prompt_caching: bool | Literal["auto"] = "auto",
        default_headers: Mapping[str, str] | None = None,
    ) -> None:
        _check_options(base_url, max_retries, prompt_caching)
        self._endpoint: Endpoint = (api_key, base_url, tuple(sorted((default_headers or {}).items())))
        self._max_retries = max_retries
        self._url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC_URL
        self._caches = caches_by_default(self._url) if prompt_caching == "auto" else prompt_caching

    async def create_message(self, request: ModelRequest) -> dict[str, Any]:
        """Return the assistant message that answers ``request``.

        Events of a stream go to ``request.on_stream_event`` as they arrive. After a retry they show only what was not
        shown before. ``request.on_retry`` hears ``{"attempt", "delay", "reason"}`` before each retry, ``delay`` in
        seconds.

        Raises:
            AbortError: the request's signal fired.
            TimeoutError: ``request.timeout_ms`` passed, retries included.
            APIError: the provider refused the request, or kept failing.
            OptionError: there is no key, or the request holds something that cannot be sent.
        """
        request.signal.throw_if_aborted()
        if request.timeout_ms is None:
            return await request.signal.race(self._create(request))
        deadline = asyncio.timeout(request.timeout_ms / 1000)
        try:
            async with deadline:
                return await request.signal.race(self._create(request))
        except builtins.TimeoutError as error:
            if not deadline.expired():
                raise
            message = f"Model request exceeded request_timeout_ms of {request.timeout_ms}ms"
            raise TimeoutError(message, cause=error) from error

    async def close(self) -> None:
        """Close connections that are idle; they are opened again when they are needed."""
        await close_idle_clients()

    async def _create(self, request: ModelRequest) -> dict[str, Any]:
        body = to_body(request)
        content = encode(add_breakpoints(body) if self._caches else body)
        relay = StreamRelay(request.on_stream_event)
        attempt = 0
        async with borrow_client(self._endpoint) as shared:
            while True:
                attempt += 1
                await shared.admission()
                try:
                    return await self._attempt(shared, request, content, relay)
                except APIError as error:
                    if error.status in _HOLD_OFF and error.retry_after:
                        await shared.hold_off(min(error.retry_after, _LONGEST_DELAY))
                    delay = self._delay(error, attempt)
                    if delay is None:
                        raise
                    await _tell(request, {"attempt": attempt, "delay": delay, "reason": error.message})
                await asyncio.sleep(delay)

    async def _attempt(
        self, shared: SharedClient, request: ModelRequest, content: bytes, relay: StreamRelay
    ) -> dict[str, Any]:
        sdk = shared.sdk
        try:
            answer = await shared.client.post(
                _path(request),
                cast_to=object,
                content=content,
                options=_options(request),
                stream=request.stream,
                stream_cls=sdk.AsyncStream[object] if request.stream else None,
            )
            if not request.stream:
                return self._read(answer)
        except sdk.APIError as error:
            raise self._failure(error, request.model) from error
        except ValueError as error:
            raise transport_failure(error, url=self._url) from error
        async with answer:
            return await self._assemble(answer, request, relay)

    async def _assemble(self, stream: Any, request: ModelRequest, relay: StreamRelay) -> dict[str, Any]:
        kind = stream.response.headers.get("content-type", "")
        if "event-stream" not in kind:
            return await self._read_whole(stream)
        assembly = StreamAssembly()
        relay.begin()
        async for event in self._events(stream, request.model):
            relay.pass_on(event)
            try:
                assembly.add(event)
            except (KeyError, TypeError, AttributeError) as error:
                raise unexpected_answer(event, url=self._url) from error
        return assembly.finish()

    async def _events(self, stream: Any, model: str) -> AsyncIterator[dict[str, Any]]:
        iterator = aiter(stream)
        while True:
            try:
                event = await anext(iterator)
            except StopAsyncIteration:
                return
            except Exception as error:
                raise self._failure(error, model) from error
            if not isinstance(event, dict):
                raise unexpected_answer(event, url=self._url)
            yield event

    async def _read_whole(self, stream: Any) -> dict[str, Any]:
        try:
            await stream.response.aread()
            answer = stream.response.json()
        except ValueError:
            answer = stream.response.text
        except Exception as error:
            raise transport_failure(error, url=self._url) from error
        return self._read(answer)

    def _read(self, answer: Any) -> dict[str, Any]:
        if isinstance(answer, dict) and answer.get("type") == "error":
            raise error_answer(answer)
        content = answer.get("content") if isinstance(answer, dict) else None
        if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
            raise unexpected_answer(answer, url=self._url)
        return read_message(answer)

    def _failure(self, error: Any, model: str) -> APIError:
        if hasattr(error, "status_code") and hasattr(error, "response"):
            return status_failure(error, url=self._url, model=model)
        return transport_failure(error, url=self._url)

    def _delay(self, error: APIError, attempt: int) -> float | None:
        """Seconds until the next attempt, or None if there is none."""
        if not error.retryable or not self._max_retries:
            return None
        asked = error.retry_after or 0.0
        limit = self._max_retries
        if error.status in _HOLD_OFF and asked:
            limit = max(limit, _RATE_LIMIT_RETRIES)
        if attempt > limit or asked > _LONGEST_DELAY:
            return None
        if asked:
            # Everybody was told the same time: the longer it goes on, the further they must be apart.
            return asked + random.uniform(0, min(asked * 2.0 ** (attempt - 1), _LONGEST_DELAY))  # noqa: S311 - jitter
        return min(_FIRST_DELAY * 2.0 ** (attempt - 1), 8.0) * random.uniform(0.5, 1)  # noqa: S311 - jitter


def _check_options(base_url: Any, max_retries: Any, prompt_caching: Any) -> None:
    if base_url is not None and not (isinstance(base_url, str) and base_url.startswith(("http://", "https://"))):
        raise OptionError(f"base_url must be a URL that begins with http:// or https://, not {base_url!r}")
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
        raise OptionError(f"max_retries must be an integer from 0, not {max_retries!r}")
    if prompt_caching not in {"auto", True, False}:
        raise OptionError(f'prompt_caching must be "auto", True or False, not {prompt_caching!r}')


def _path(request: ModelRequest) -> str:
    return "/v1/messages" if request.output_format is None else "/v1/messages?beta=true"


def _options(request: ModelRequest) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if request.output_format is not None:
        options["headers"] = {"anthropic-beta": STRUCTURED_OUTPUTS_BETA}
    if request.timeout_ms is not None:
        options["timeout"] = request.timeout_ms / 1000
    return options


async def _tell(request: ModelRequest, retry: dict[str, Any]) -> None:
    told = request.on_retry(retry)
    if inspect.isawaitable(told):
        await told
