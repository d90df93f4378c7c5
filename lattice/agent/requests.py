"""Builds a model request, lets the hook shape it, traces it, and sends it."""

from typing import Any

from lattice.agent.hooks import ModelRequestHookContext, shape_request
from lattice.agent.model_call import ModelCall
from lattice.agent.runtime import optional_method
from lattice.agent.shared import SharedMessages
from lattice.agent.state import RunState
from lattice.messages import Message
from lattice.model import ModelRequest
from lattice.tools.callbacks import settled
from lattice.workspace.grants import active_grants

__all__ = ["ask_model", "has_urgent_mail", "send"]


async def ask_model(run: RunState) -> ModelCall:
    """Count a turn and send its request; the call is under way when this returns.

    Raises:
        Exception: what a hook, a strict tracer, the journal or the runtime raised.
    """
    await _ask_runtime(run)
    if run.session.journal_dirty:
        await run.clear_journal()
    run.num_turns += 1
    settings, definition = run.settings, run.session.definition
    messages: list[Message] = run.conversation.messages
    if run.skills is not None:
        messages = [run.skills, *messages]
    call = ModelCall()
    request = ModelRequest(
        model=definition.model,
        messages=messages,
        max_tokens=definition.max_tokens,
        system_prompt=run.system_prompt,
        tools=SharedMessages(run.tools.models),
        stream=settings.stream,
        output_format=settings.output_format,
        thinking_config=settings.thinking_config and dict(settings.thinking_config),
        reasoning_effort=settings.reasoning_effort,
        timeout_ms=settings.request_timeout_ms,
        on_stream_event=call.take_event if settings.stream else _ignore,
        signal=call.signal,
    )
    await send(run, call, request)
    return call


async def _ask_runtime(run: RunState) -> None:
    gate = optional_method(run.settings.runtime, "before_model_call")
    if gate is not None:
        await settled(gate())


async def send(run: RunState, call: ModelCall, request: ModelRequest) -> None:
    """Let the hook shape a request, trace it and send it; ``request.messages`` may be the live ones until here.

    Raises:
        Exception: what the hook or a strict tracer raised; the runtime, too, if this is no turn.
    """
    purpose = call.purpose
    if purpose != "turn":
        await _ask_runtime(run)
    hook = run.session.definition.hooks.on_model_request
    if hook is not None:
        await _shape(run, hook, request, purpose)
    if run.trace is not None:
        request.on_retry = _retry_tracer(run)
        await run.trace.emit("model_request", _request_data(run, request, purpose))
    request.messages = SharedMessages(request.messages)
    run.call = call
    if run.settings.signal is not None and run.settings.signal.aborted:
        call.cut("abort")
    elif run.interrupted:
        call.cut("interrupt")
    elif purpose == "turn" and has_urgent_mail(run):
        call.cut("mail")
    else:
        call.start(run.session.model_client, request, optional_method(run.settings.runtime, "before_sending"))


async def _shape(run: RunState, hook: Any, request: ModelRequest, purpose: str) -> None:
    context = ModelRequestHookContext(
        messages=SharedMessages(request.messages),
        system_prompt=request.system_prompt,
        turn=run.num_turns,
        context=run.settings.context,
        source=run.environment.source,
        signal=run.settings.signal,
        purpose=purpose,
    )
    messages, system_prompt = await shape_request(hook, context)
    if messages is not None:
        request.messages = messages
    if system_prompt is not None:
        request.system_prompt = system_prompt or None


def has_urgent_mail(run: RunState) -> bool:
    """Whether the runtime has something that the agent must be shown before it goes on."""
    due = optional_method(run.settings.runtime, "has_urgent_mail")
    return due is not None and bool(due())


def _retry_tracer(run: RunState) -> Any:
    async def on_retry(retry: dict[str, Any]) -> None:
        if run.trace is not None:
            await run.trace.emit("retry", dict(retry))

    return on_retry


def _request_data(run: RunState, request: ModelRequest, purpose: str) -> dict[str, Any]:
    data: dict[str, Any] = {"model": request.model, "max_tokens": request.max_tokens}
    if request.system_prompt:
        data["systemPrompt"] = request.system_prompt
    data["messages"] = SharedMessages(request.messages)
    data["tools"] = [entry["name"] for entry in list.__iter__(request.tools)]
    data["permissions"] = {"workspaceGrants": _grants(run.settings.permissions)}
    data["stream"] = request.stream
    optional = {
        "outputFormat": request.output_format,
        "thinkingConfig": _thinking_on_wire(request.thinking_config),
        "reasoningEffort": request.reasoning_effort,
        "timeoutMs": request.timeout_ms,
    }
    data.update({name: value for name, value in optional.items() if value is not None})
    if purpose != "turn":
        data["purpose"] = purpose
    return data


def _thinking_on_wire(config: dict[str, Any] | None) -> dict[str, Any] | None:
    if config is None:
        return None
    return {"budgetTokens" if name == "budget_tokens" else name: value for name, value in config.items()}


def _grants(permissions: Any) -> list[dict[str, Any]]:
    shown = ("root", "access", "reason", "workItemId")
    return [
        {name: value for name, value in grant.to_dict().items() if name in shown}
        for grant in active_grants(permissions)
    ]


def _ignore(_event: dict[str, Any]) -> None:
    return
