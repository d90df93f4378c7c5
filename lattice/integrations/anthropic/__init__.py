"""The Anthropic Messages API, over the official SDK."""

from lattice.integrations.anthropic.client import AnthropicClient

__all__ = ["AnthropicClient"]
