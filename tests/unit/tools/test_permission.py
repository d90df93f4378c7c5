import pytest

from lattice.errors import LatticeError
from lattice.tools.permission import ask_permission


async def test_the_host_sees_the_raw_request():
    """agent:PERM-01"""
    seen = []
    raw = {"path": "x"}
    assert await ask_permission(lambda request: seen.append(request), "Write", raw, "id-1") is None
    (request,) = seen
    assert (request.tool_name, request.input, request.tool_use_id) == ("Write", {"path": "x"}, "id-1")
    assert request.input is not raw


class Decision:
    behavior = "deny"
    message = "no"


@pytest.mark.parametrize(
    ("answer", "denial"),
    [
        ({"behavior": "allow"}, None),
        ({"behavior": "deny", "message": "not today"}, "not today"),
        ({"behavior": "deny"}, "Permission to use T was denied."),
        ({"behavior": "ask"}, None),
        (Decision(), "no"),
        (True, None),
        (False, "Permission to use T was denied."),
        (None, None),
    ],
)
async def test_answers(answer, denial):
    """agent:PERM-02 agent:PERM-05"""
    assert await ask_permission(lambda _request: answer, "T", {}, "i") == denial


async def test_an_async_answer_of_nothing_is_an_error():
    """agent:PERM-05"""

    async def forgetful(_request):
        return None

    with pytest.raises(LatticeError, match="returned None"):
        await ask_permission(forgetful, "T", {}, "i")
