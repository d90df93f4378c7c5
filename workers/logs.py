"""Log lines: JSON for machines, columns for people; every line says who wrote it, none holds a password."""

import logging
import os
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from lattice.redaction import MASK, hide, hide_value, remember_secrets, secrets_of
from workers.settings import Settings

__all__ = ["configure_logs", "get_logger", "hide_passwords"]

_CREDENTIALS = re.compile(r"(\w[\w+.-]*://)[^/\s@]*@")
_SECRET_KEY = re.compile(r"api[-_]?key|password|secret|authorization|credential", re.IGNORECASE)

CHATTY = (
    "anthropic",
    "asyncio",
    "httpcore",
    "httpx",
    "langfuse",
    "langsmith",
    "mcp",
    "opentelemetry",
    "redis",
    "rq",
    "urllib3",
)
"""Libraries of which only warnings are shown: some of them log what they send, prompts included."""

ABOUT = ("run_id", "message_id", "attempt")
"""What lines of the standard library's logging may say by ``extra``."""

Event = MutableMapping[str, Any]


def get_logger(name: str = "lattice") -> Any:
    """Return a logger; its lines carry what ``configure_logs`` was given."""
    return structlog.stdlib.get_logger(name)


def configure_logs(settings: Settings, **who: str) -> None:
    """Send the log lines of this process to stderr; ``who`` (team, member, role, worker) stands in each of them.

    Lines of the standard library's logging take the same way.
    """
    remember_secrets(secrets_of({**os.environ, "redis_url": settings.redis_url or ""}))
    console = settings.log_format == "console" or (settings.log_format is None and sys.stderr.isatty())

    def say_who(_logger: Any, _method: str, event: Event) -> Event:
        for key, value in who.items():
            event.setdefault(key, value)
        return event

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.ExtraAdder(ABOUT),
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        say_who,
        structlog.processors.format_exc_info,
        _redact,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(shared, console=console))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def hide_passwords(text: str) -> str:
    """Replace the user and password of every URL in a text."""
    return _CREDENTIALS.sub(r"\1***@", text) if "://" in text else text


def _formatter(shared: list[Any], *, console: bool) -> logging.Formatter:
    if console:
        last: Any = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
        )
    else:
        last = structlog.processors.JSONRenderer(ensure_ascii=False)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
    )


def _redact(_logger: Any, _method: str, event: Event) -> Event:
    for key, value in event.items():
        if _SECRET_KEY.search(key):
            event[key] = MASK
        elif isinstance(value, str):
            event[key] = hide(hide_passwords(value))
        elif isinstance(value, BaseException):
            event[key] = hide(hide_passwords(f"{type(value).__name__}: {value}"))
        else:
            event[key] = hide_value(value)
    return event
