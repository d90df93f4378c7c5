"""Helpers for testing agents and teams without a provider."""

from lattice.testing.model import ScriptedModel, text, tool_use, turn
from lattice.testing.replies import Reply, dropped, early_end, http_error, raw_stream, reply, stream_error
from lattice.testing.server import MessagesApiServer, RecordedRequest

__all__ = [
    "MessagesApiServer",
    "RecordedRequest",
    "Reply",
    "ScriptedModel",
    "dropped",
    "early_end",
    "http_error",
    "raw_stream",
    "reply",
    "stream_error",
    "text",
    "tool_use",
    "turn",
]
