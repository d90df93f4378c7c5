import pytest

from lattice.tools.batch import ToolEnvironment, execute_batch
from lattice.tools.builtin import create_builtin_tools


class Tools:
    """The built-in tools of one directory, called as the loop calls them."""

    def __init__(self, cwd, **options):
        self.cwd = cwd
        self.by_name = {made.name: made for made in create_builtin_tools(cwd=cwd, **options)}

    async def outcome(self, name, _signal=None, _permissions=None, _interrupt=None, **value):
        environment = ToolEnvironment(
            tools=self.by_name, signal=_signal, permissions=_permissions, interrupt=_interrupt
        )
        call = {"type": "tool_use", "id": "c1", "name": name, "input": value}
        return await execute_batch([call], environment)

    async def ok(self, name, **value):
        (block,) = (await self.outcome(name, **value)).results
        assert not block.get("is_error"), block["content"]
        return block["content"]

    async def error(self, name, **value):
        (block,) = (await self.outcome(name, **value)).results
        assert block.get("is_error"), block["content"]
        return block["content"]


@pytest.fixture
def make_tools(tmp_path):
    def make(cwd=None, **options):
        return Tools(cwd or tmp_path, **options)

    return make


@pytest.fixture
def tools(make_tools):
    return make_tools()
