"""The ways to make an agent: a live one, a bare one, a template, or one for a single question."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Unpack

from lattice.agent.agent import Agent, build_agent
from lattice.agent.options import QUERY_OPTIONS, AgentOptions, BareAgentOptions
from lattice.agent.spec import AgentSpec
from lattice.errors import OptionError
from lattice.events import SDKMessage
from lattice.model import ModelClient, ModelRequest

__all__ = ["create_agent", "create_bare_agent", "define_agent", "query"]


class BuiltInClient:
    """The Anthropic client, loaded and made when the first request is sent: loading it takes more than a second."""

    __slots__ = ("_api_key", "_base_url", "_client")

    def __init__(self, api_key: str | None, base_url: str | None) -> None:
        self._api_key, self._base_url = api_key, base_url
        self._client: ModelClient | None = None

    async def create_message(self, request: ModelRequest) -> dict[str, Any]:
        """Hand the request to the Anthropic client."""
        if self._client is None:
            from lattice.integrations.anthropic.client import AnthropicClient  # noqa: PLC0415 - see the class

            self._client = AnthropicClient(api_key=self._api_key, base_url=self._base_url)
        return await self._client.create_message(request)


def create_agent(**options: Unpack[AgentOptions]) -> Agent:
    """Make an agent with a private workspace and the built-in tools; see ``AgentOptions``.

    Raises:
        OptionError: an option is unknown, missing or has a value that cannot be used; nothing was created then.
    """
    return _build(dict(options))


def create_bare_agent(**options: Unpack[BareAgentOptions]) -> Agent:
    """Make an agent that has only what it is given: no workspace, no built-in tools, no prompt of ours.

    Raises:
        OptionError: an option is unknown, missing or has a value that cannot be used.
    """
    return build_agent(dict(options), make_client=_make_client, bare=True)


def define_agent(**options: Unpack[AgentOptions]) -> AgentSpec:
    """Make a template from which independent sessions are spawned; sessions share client, tools and tracer.

    Raises:
        OptionError: an option is unknown, missing or has a value that cannot be used.
    """
    shared = _make_client(options)

    def make_client(merged: Mapping[str, Any]) -> ModelClient:
        same = all(merged.get(name) == options.get(name) for name in ("api_key", "base_url"))
        return shared if same else _make_client(merged)

    def spawn(merged: dict[str, Any]) -> Agent:
        bare = merged.get("workspace") is False
        return build_agent(merged, make_client=make_client, bare=bare, spawned=True)

    return AgentSpec(dict(options), spawn)


async def query(params: Mapping[str, Any] | None = None, /, **options: Any) -> AsyncGenerator[SDKMessage, None]:
    """Ask one question of an agent made for it, and yield what happens.

    Args:
        params: the options as a dict, if they are not given by name.
        options: ``prompt``, options of ``create_agent()`` and options of ``Agent.query()``.

    Raises:
        OptionError: ``prompt`` is missing, or an option cannot be used.
    """
    merged = {**(params or {}), **options}
    if merged.get("prompt") is None:
        raise OptionError("query: prompt is required")
    prompt = merged.pop("prompt")
    both = ("thinking_config", "reasoning_effort", "request_timeout_ms", "tracer")
    asked = {name: merged.pop(name) for name in QUERY_OPTIONS if name in merged and name not in both}
    events = _build(merged).query(prompt, **asked)
    try:
        async for event in events:
            yield event
    finally:
        await events.aclose()


def _build(options: dict[str, Any]) -> Agent:
    return build_agent(options, make_client=_make_client, bare=options.get("workspace") is False)


def _make_client(options: Mapping[str, Any]) -> ModelClient:
    return BuiltInClient(options.get("api_key"), options.get("base_url"))
