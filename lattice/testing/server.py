"""A local HTTP server that speaks the Anthropic Messages API from a script, faults included.

So a test drives the real SDK over a real socket, with no key and no network.
"""

import asyncio
import inspect
import math
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from lattice.encoding import decode, encode
from lattice.errors import LatticeError, OptionError
from lattice.testing.http import BadRequestError, Connection, HttpRequest
from lattice.testing.prompt_cache import PromptCache
from lattice.testing.replies import Reply, as_reply, http_error
from lattice.testing.sse import frame, stream_events
from lattice.testing.validation import RequestValidator

__all__ = ["MessagesApiServer", "RecordedRequest"]

Script = Iterable[Any] | Callable[[dict[str, Any]], Any]


@dataclass(slots=True)
class RecordedRequest:
    """A request as it arrived; ``usage`` is what the answer said it cost, None if it was refused."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    raw: bytes
    usage: dict[str, int] | None = None


@dataclass(slots=True)
class _Answer:
    reply: Reply
    message: dict[str, Any] = field(default_factory=dict)
    stream: bool = False


class MessagesApiServer:
    """Answers ``POST /v1/messages`` on a free port of the loopback, as JSON or as an event stream.

    ``script`` is a list of replies, used up one a request, or a function of the request body that returns one. A reply
    is what ``ScriptedModel`` takes (texts, blocks, messages made by ``turn()``) or a ``Reply``: ``reply()``,
    ``http_error()``, ``stream_error()``, ``early_end()``, ``dropped()``, ``raw_stream()``. Works as ``async with`` on
    the running loop and as ``with`` in a thread of its own.

    ``requests`` holds what arrived, ``cache`` what the prompt cache saved, ``connections`` how many there were, and
    ``disconnects`` how many clients hung up before their answer was complete. Requests that the provider would refuse
    get the status 400, unless ``strict`` is False.

    >>> async with MessagesApiServer(["Hello!"]) as server:
    ...     client = AnthropicClient(api_key="key", base_url=server.base_url)
    """

    def __init__(self, script: Script, *, strict: bool = True, chunk_size: int = 16) -> None:
        if isinstance(script, (str, dict)):
            raise OptionError(f"MessagesApiServer: script must be a list of replies or a function, not {script!r}")
        self._function = script if callable(script) else None
        self._replies: Iterator[Any] = iter(()) if callable(script) else iter(script)
        self._strict = strict
        self._chunk_size = chunk_size
        self._validator = RequestValidator()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._thread: _ServerThread | None = None
        self.requests: list[RecordedRequest] = []
        self.cache = PromptCache()
        self.disconnects = 0
        self.connections = 0
        self.port = 0

    @property
    def base_url(self) -> str:
        """Where the server listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        """How many connections are open at the moment."""
        return len(self._open)

    async def start(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and break off what is open."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __enter__(self) -> Self:
        self._thread = _ServerThread(self)
        self._thread.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._thread.finish()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        connection = Connection(reader, writer)
        try:
            await self._serve(connection)
        except (ConnectionError, BadRequestError):
            connection.reset()
        except asyncio.CancelledError:
            connection.reset()  # the server stops; start_server() wants its tasks to end quietly
        finally:
            self._open.discard(task)
            await connection.close()

    async def _serve(self, connection: Connection) -> None:
        while (request := await connection.read_request()) is not None:
            answer = await self._answer(request)
            watcher = asyncio.ensure_future(connection.watch())
            sender = asyncio.ensure_future(self._send(connection, answer))
            gone = asyncio.ensure_future(connection.gone.wait())
            try:
                await asyncio.wait({sender, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not sender.done():
                    self.disconnects += 1
                    return
                keep = sender.result()
            except ConnectionError:
                self.disconnects += 1
                return
            finally:
                for task in (watcher, sender, gone):
                    task.cancel()
                await asyncio.gather(watcher, sender, gone, return_exceptions=True)
            if not keep:
                return

    async def _answer(self, request: HttpRequest) -> _Answer:
        try:
            body = decode(request.body)
        except ValueError:
            body = None
        recorded = RecordedRequest(request.method, request.path, request.query, request.headers, body, request.body)
        self.requests.append(recorded)
        if request.method != "POST" or request.path != "/v1/messages":
            return _Answer(http_error(404, "not_found_error", f"no such path: {request.method} {request.path}"))
        complaint = self._validator.complaint(body) if self._strict else None
        if complaint is not None:
            return _Answer(http_error(400, "invalid_request_error", complaint))
        entry = await self._next(body)
        if entry.status != 200 or entry.events is not None or entry.body is not None:
            return _Answer(entry, stream=bool(body.get("stream")))
        return self._message(entry, recorded)

    async def _next(self, body: dict[str, Any]) -> Reply:
        entry = self._function
        if entry is None:
            try:
                entry = next(self._replies)
            except StopIteration:
                return http_error(500, message=f"the script ended before request {len(self.requests)}")
        try:
            while callable(entry):
                entry = entry(body)
                if inspect.isawaitable(entry):
                    entry = await entry
            return as_reply(entry)
        except Exception as error:  # noqa: BLE001 - a script that fails is an answer, or the client would hang
            return http_error(500, message=f"the script failed: {type(error).__name__}: {error}")

    def _message(self, entry: Reply, recorded: RecordedRequest) -> _Answer:
        body = recorded.body
        content = [_with_id(block) for block in entry.content]
        counted = self.cache.count(body)
        usage = dict(entry.usage) if entry.usage is not None else counted
        usage.setdefault("output_tokens", max(len(encode(content)) // 4, 1))
        recorded.usage = usage
        self._validator.remember(content)
        message = {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": entry.model or body["model"],
            "content": content,
            "stop_reason": entry.stop_reason,
            "stop_sequence": None,
            "usage": usage,
        }
        return _Answer(entry, message, bool(body.get("stream")))

    async def _send(self, connection: Connection, answer: _Answer) -> bool:
        entry = answer.reply
        if entry.delay:
            await (
                asyncio.get_running_loop().create_future() if entry.delay == math.inf else asyncio.sleep(entry.delay)
            )
        if entry.fault == "drop" and (entry.after is None or not answer.stream):
            connection.reset()
            return False
        headers = {"request-id": f"req_{len(self.requests)}", **entry.headers}
        if entry.events is not None or (answer.stream and answer.message):
            return await self._send_stream(connection, answer, headers)
        data, kind = _json_body(answer)
        await connection.send(entry.status, {"content-type": kind, **headers}, data)
        return True

    async def _send_stream(self, connection: Connection, answer: _Answer, headers: dict[str, str]) -> bool:
        await connection.begin(200, {"content-type": "text/event-stream; charset=utf-8", **headers})
        for event in _faulty(answer, self._chunk_size):
            if event is None:
                connection.reset()
                return False
            await connection.chunk(event if isinstance(event, bytes) else frame(event))
            if answer.reply.pause:
                await asyncio.sleep(answer.reply.pause)
        await connection.end()
        return True


def _with_id(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") != "tool_use" or "id" in block:
        return block
    return {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:24]}", **block}


def _faulty(answer: _Answer, chunk_size: int) -> Iterator[Any]:
    """The events of an answer up to its fault; None stands for a connection that breaks."""
    entry = answer.reply
    events = entry.events if entry.events is not None else stream_events(answer.message, chunk_size)
    deltas = 0
    for event in events:
        is_delta = isinstance(event, dict) and event.get("type") == "content_block_delta"
        ending = isinstance(event, dict) and event.get("type") == "message_delta"
        if entry.fault is not None and (ending or (is_delta and deltas >= (entry.after or 0))):
            if entry.fault == "error":
                yield {"type": "error", "error": dict(entry.error)}
            elif entry.fault == "drop":
                yield None
            return
        deltas += is_delta
        yield event


def _json_body(answer: _Answer) -> tuple[bytes, str]:
    entry = answer.reply
    if entry.fault == "error":
        return encode({"type": "error", "error": dict(entry.error)}), "application/json"
    if isinstance(entry.body, (str, bytes)):
        return entry.body.encode() if isinstance(entry.body, str) else entry.body, "text/plain"
    data = encode(entry.body if entry.body is not None else answer.message)
    return (data[: len(data) // 2] if entry.fault == "end" else data), "application/json"


class _ServerThread:
    """Runs a server on a loop in a thread of its own, for tests that are not async."""

    def __init__(self, server: MessagesApiServer) -> None:
        self._server = server
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    def begin(self) -> None:
        self._thread.start()
        if not self._ready.wait(30) or self._loop is None:
            raise LatticeError("the Messages API server did not start")

    def finish(self) -> None:
        assert self._loop is not None
        assert self._done is not None
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    async def _main(self) -> None:
        self._done = asyncio.Event()
        try:
            async with self._server:
                self._loop = asyncio.get_running_loop()
                self._ready.set()
                await self._done.wait()
        finally:
            self._ready.set()
