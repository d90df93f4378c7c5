"""The model of the examples: Claude where ANTHROPIC_API_KEY is set, else answers written in advance.

Run any example from the top of the repository: ``python -m examples.quickstart.ask``.
"""

import os
from typing import Any

from lattice.testing import ScriptedModel


def model_of(*replies: Any) -> dict[str, Any]:
    """Return the options that give an agent its model; ``replies`` are what it says without a key, one a request."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        return {"model": os.environ.get("EXAMPLES_MODEL", "claude-sonnet-4-5")}
    return {"model": "scripted", "model_client": ScriptedModel(replies)}
