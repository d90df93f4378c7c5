"""Helpers for testing agents and teams without a provider."""

from lattice.testing.model import ScriptedModel, text, tool_use, turn

__all__ = ["ScriptedModel", "text", "tool_use", "turn"]
