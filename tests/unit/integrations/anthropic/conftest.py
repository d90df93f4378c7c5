import pytest

from lattice.integrations.anthropic import AnthropicClient
from lattice.integrations.anthropic import client as client_module
from lattice.model import ModelRequest


@pytest.fixture
def ask():
    """Sends one request to a server; takes the client's and the request's options together."""

    async def send(server, prompt="hi", *, client=None, **options):
        client = client or AnthropicClient("key", server.base_url)
        messages = options.pop("messages", None) or [{"role": "user", "content": prompt}]
        options = {"model": "test-model", "max_tokens": 1000, **options}
        return await client.create_message(ModelRequest(messages=messages, **options))

    return send


@pytest.fixture
def soon(monkeypatch):
    """Retries come at once."""
    monkeypatch.setattr(client_module, "_FIRST_DELAY", 0.001)
