"""Teams of LLM agents: in one process, or as separate processes on Redis."""

import importlib
from typing import Any

from lattice.abort import AbortController, AbortSignal
from lattice.agent.agent import Agent, AgentLike
from lattice.agent.compaction_settings import DEFAULT_COMPACTION_PROMPT, AutoCompactOptions
from lattice.agent.documented import (
    AgentWorkspaceOptions,
    AgentWorkspaceToolsOptions,
    OutputSchema,
    PermissionDecision,
    ToolBatchPolicy,
    ToolBatchPolicyContext,
    ToolBatchPolicyResult,
    ToolConcurrencyMode,
    ToolConcurrencyOptions,
    ToolOptions,
    ToolResultHookContext,
)
from lattice.agent.hooks import (
    AgentHooks,
    ModelRequestHookContext,
    ModelRequestHookResult,
    create_composite_agent_hooks,
)
from lattice.agent.options import AgentOptions, BareAgentOptions, QueryOptions
from lattice.agent.runtime import AgentRuntime, AgentRuntimeContext
from lattice.agent.skills import SkillDefinition, load_skill, skill
from lattice.agent.spec import AgentSpec, AgentToolTarget, is_agent_spec
from lattice.agent.toolset import SUBMIT_OUTPUT_TOOL_NAME
from lattice.errors import (
    AbortError,
    AgentSDKError,
    APIError,
    AppError,
    ConcurrentQueryError,
    LatticeError,
    LeaseLostError,
    MaxTurnsError,
    MissingOutputError,
    OptionError,
    SizeLimitError,
    StoreError,
    TimeoutError,  # noqa: A004 - the documented name
    ToolBatchRejectedError,
    ToolExecutionError,
    ToolPermissionDeniedError,
)
from lattice.events import (
    AgentLikeEvent,
    AgentMessageEvent,
    SDKAssistantMessage,
    SDKMessage,
    SDKResultMessage,
    SDKStreamEvent,
    SDKSystemCompactionMessage,
    SDKSystemInitMessage,
    SDKUserMessage,
    TeamAgentEvent,
    TeamMessageEvent,
    event_from_dict,
)
from lattice.factories import create_agent, create_bare_agent, define_agent, query
from lattice.history import HistoryStore, define_history_store
from lattice.mailbox import TeamMailbox, TeamMessage
from lattice.messages import (
    AssistantModelMessage,
    ContentBlock,
    Message,
    OutputFormat,
    ReasoningEffort,
    StopReason,
    ThinkingConfig,
    TokenUsage,
)
from lattice.model import ModelClient, ModelRequest
from lattice.tools.builtin import create_agent_workspace_tools, create_builtin_tools
from lattice.tools.tool import ToolContext, ToolDefinition, ToolResult, tool
from lattice.tracer import (
    ContextTraceEvent,
    ContextTraceEventType,
    ContextTracer,
    create_composite_context_tracer,
    define_context_tracer,
)

# Loaded when they are first asked for: they need a client library, or only some hosts want them.
_LATER = {
    "lattice.files.history": ("JsonlHistoryStoreOptions", "create_jsonl_history_store"),
    "lattice.files.tracer": ("JsonlContextTracerOptions", "create_jsonl_context_tracer"),
    "lattice.integrations.anthropic": ("AnthropicClient",),
    "lattice.integrations.langfuse": (
        "LangfuseChainLike",
        "LangfuseContextTracerOptions",
        "LangfuseFlushableSpanProcessor",
        "LangfuseGenerationLike",
        "LangfuseKVMap",
        "LangfuseObservationLike",
        "LangfuseStartObservation",
        "LangfuseToolLike",
        "create_langfuse_context_tracer",
    ),
    "lattice.integrations.langsmith": (
        "LangSmithContextTracerOptions",
        "LangSmithRunTreeConfig",
        "LangSmithRunTreeLike",
        "create_langsmith_context_tracer",
    ),
    "lattice.integrations.mcp": (
        "MCPClient",
        "MCPStdioConnection",
        "MCPStreamableHTTPConnection",
        "connect_mcp_stdio_server",
        "connect_mcp_streamable_http_server",
        "create_mcp_tools",
    ),
    "lattice.integrations.opentelemetry": ("create_opentelemetry_context_tracer",),
    "lattice.memory.mailbox": ("create_memory_mailbox",),
    "lattice.sqlite.mailbox": ("SQLiteDatabaseLike", "SQLiteMailboxOptions", "create_sqlite_mailbox"),
    "lattice.team.agent_tool": ("AgentToolOptions", "agent_tool"),
    "lattice.team.definition": ("TeamMemberDefinition", "team_member"),
    "lattice.team.delegate_tool": ("DelegateToolOptions", "delegate_tool"),
    "lattice.team.failures": ("AgentRuntimeFailure",),
    "lattice.team.runner": ("TeamRunner", "TeamRunnerConfig", "TeamRunnerMessage", "create_team_runner"),
    "lattice.team.tool_input": ("AgentToolInput",),
    "lattice.team.team": ("Team", "TeamDrainOptions", "TeamDrainResult", "create_team"),
}
_HOME = {name: module for module, names in _LATER.items() for name in names}

__all__ = [
    "DEFAULT_COMPACTION_PROMPT",
    "SUBMIT_OUTPUT_TOOL_NAME",
    "APIError",
    "AbortController",
    "AbortError",
    "AbortSignal",
    "Agent",
    "AgentHooks",
    "AgentLike",
    "AgentLikeEvent",
    "AgentMessageEvent",
    "AgentOptions",
    "AgentRuntime",
    "AgentRuntimeContext",
    "AgentRuntimeFailure",
    "AgentSDKError",
    "AgentSpec",
    "AgentToolInput",
    "AgentToolOptions",
    "AgentToolTarget",
    "AgentWorkspaceOptions",
    "AgentWorkspaceToolsOptions",
    "AnthropicClient",
    "AppError",
    "AssistantModelMessage",
    "AutoCompactOptions",
    "BareAgentOptions",
    "ConcurrentQueryError",
    "ContentBlock",
    "ContextTraceEvent",
    "ContextTraceEventType",
    "ContextTracer",
    "DelegateToolOptions",
    "HistoryStore",
    "JsonlContextTracerOptions",
    "JsonlHistoryStoreOptions",
    "LangSmithContextTracerOptions",
    "LangSmithRunTreeConfig",
    "LangSmithRunTreeLike",
    "LangfuseChainLike",
    "LangfuseContextTracerOptions",
    "LangfuseFlushableSpanProcessor",
    "LangfuseGenerationLike",
    "LangfuseKVMap",
    "LangfuseObservationLike",
    "LangfuseStartObservation",
    "LangfuseToolLike",
    "LatticeError",
    "LeaseLostError",
    "MCPClient",
    "MCPStdioConnection",
    "MCPStreamableHTTPConnection",
    "MaxTurnsError",
    "Message",
    "MissingOutputError",
    "ModelClient",
    "ModelRequest",
    "ModelRequestHookContext",
    "ModelRequestHookResult",
    "OptionError",
    "OutputFormat",
    "OutputSchema",
    "PermissionDecision",
    "QueryOptions",
    "ReasoningEffort",
    "SDKAssistantMessage",
    "SDKMessage",
    "SDKResultMessage",
    "SDKStreamEvent",
    "SDKSystemCompactionMessage",
    "SDKSystemInitMessage",
    "SDKUserMessage",
    "SQLiteDatabaseLike",
    "SQLiteMailboxOptions",
    "SizeLimitError",
    "SkillDefinition",
    "StopReason",
    "StoreError",
    "Team",
    "TeamAgentEvent",
    "TeamDrainOptions",
    "TeamDrainResult",
    "TeamMailbox",
    "TeamMemberDefinition",
    "TeamMessage",
    "TeamMessageEvent",
    "TeamRunner",
    "TeamRunnerConfig",
    "TeamRunnerMessage",
    "ThinkingConfig",
    "TimeoutError",
    "TokenUsage",
    "ToolBatchPolicy",
    "ToolBatchPolicyContext",
    "ToolBatchPolicyResult",
    "ToolBatchRejectedError",
    "ToolConcurrencyMode",
    "ToolConcurrencyOptions",
    "ToolContext",
    "ToolDefinition",
    "ToolExecutionError",
    "ToolOptions",
    "ToolPermissionDeniedError",
    "ToolResult",
    "ToolResultHookContext",
    "agent_tool",
    "connect_mcp_stdio_server",
    "connect_mcp_streamable_http_server",
    "create_agent",
    "create_agent_workspace_tools",
    "create_bare_agent",
    "create_builtin_tools",
    "create_composite_agent_hooks",
    "create_composite_context_tracer",
    "create_jsonl_context_tracer",
    "create_jsonl_history_store",
    "create_langfuse_context_tracer",
    "create_langsmith_context_tracer",
    "create_mcp_tools",
    "create_memory_mailbox",
    "create_opentelemetry_context_tracer",
    "create_sqlite_mailbox",
    "create_team",
    "create_team_runner",
    "define_agent",
    "define_context_tracer",
    "define_history_store",
    "delegate_tool",
    "event_from_dict",
    "is_agent_spec",
    "load_skill",
    "query",
    "skill",
    "team_member",
    "tool",
]


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'lattice' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
