"""The options of automatic compaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from lattice.agent.checks import check_known, check_positive
from lattice.errors import OptionError

__all__ = ["DEFAULT_COMPACTION_PROMPT", "AutoCompactOptions", "CompactionSettings"]

DEFAULT_COMPACTION_PROMPT = """\
Your task is to create a detailed summary of this conversation. It will take the place of the conversation itself, so \
whatever you leave out is forgotten: include everything that is needed to carry on with the work.

Cover, as far as they occur:
- what the user asked for, in every explicit request, and what was done about each
- technical details: code patterns, architecture decisions, files that were read or changed, commands that were run
- errors that came up, what was tried against them and what helped
- intent and constraints, decisions and the reasons for them
- questions that are still open, and the next steps

Write the summary only, without a preface."""


class AutoCompactOptions(TypedDict, total=False):
    """What ``auto_compact`` takes besides True and False; see ``CompactionSettings``."""

    threshold_tokens: int
    keep_recent_messages: int
    prompt: str
    model: str
    max_tokens: int


_SPELLINGS = {
    "threshold_tokens": "threshold_tokens",
    "thresholdTokens": "threshold_tokens",
    "keep_recent_messages": "keep_recent_messages",
    "keepRecentMessages": "keep_recent_messages",
    "prompt": "prompt",
    "model": "model",
    "max_tokens": "max_tokens",
    "maxTokens": "max_tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSettings:
    """When and how older messages are replaced by a summary.

    It is due once a response has reported more input tokens, cached ones included, than ``threshold_tokens``; the last
    ``keep_recent_messages`` stay as they are. The summary is asked of ``model`` (None: the agent's) with ``prompt`` as
    system prompt and at most ``max_tokens`` of output.
    """

    threshold_tokens: int = 100_000
    keep_recent_messages: int = 6
    prompt: str = DEFAULT_COMPACTION_PROMPT
    model: str | None = None
    max_tokens: int = 8192

    @classmethod
    def read(cls, value: Any) -> "CompactionSettings | None":
        """Return the settings that the option ``auto_compact`` stands for; None if it is off.

        Raises:
            OptionError: a setting is unknown or has a value that cannot be used.
        """
        label = "AgentOptions.auto_compact"
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if isinstance(value, CompactionSettings):
            return value
        if not isinstance(value, Mapping):
            raise OptionError(f"{label} must be True, False or a dict, not {value!r}")
        check_known(label, value, _SPELLINGS)
        settings = {_SPELLINGS[name]: item for name, item in value.items() if item is not None}
        for name in ("threshold_tokens", "keep_recent_messages", "max_tokens"):
            if name in settings:
                check_positive(f"{label}.{name}", settings[name])
        for name in ("prompt", "model"):
            if name in settings and (not isinstance(settings[name], str) or not settings[name].strip()):
                raise OptionError(f"{label}.{name} must be a text, not {settings[name]!r}")
        return cls(**settings)
