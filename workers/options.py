"""The shared command line options, defined once, so that every command spells them the same way."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from workers.settings import OPTIONS, Option, load_settings

__all__ = ["LOGGING", "TEAM", "WORK", "with_settings"]

TEAM = ("app", "redis_url", "retention", "max_message_bytes")
"""What every command that touches a team takes."""

LOGGING = ("log_level", "log_format")
LIMITS = ("max_conversation_bytes", "max_mailbox_depth", "max_events", "max_dead_letters")
WORK = ("concurrency", "burst", "lease", "max_attempts", "drain_timeout", *LIMITS, "health_port", "metrics_port")
"""What every process that does work takes."""

F = TypeVar("F", bound=Callable[..., Any])


def with_settings(*names: str) -> Callable[[F], F]:
    """Give a click command the named options; it gets them, and all other settings, as ``settings``."""

    def decorate(command: F) -> F:
        @wraps(command)
        def with_loaded(*args: Any, **kwargs: Any) -> Any:
            flags = {name: kwargs.pop(name) for name in names}
            return command(*args, settings=load_settings(flags), **kwargs)

        wrapped: Any = with_loaded
        for name in reversed(names):
            wrapped = _as_click(OPTIONS[name])(wrapped)
        return cast(F, wrapped)

    return decorate


def _as_click(option: Option) -> Callable[[Any], Any]:
    shown = f"{option.help} [{option.variables[0]}]"
    if option.metavar:
        return click.option(option.flag, option.name, metavar=option.metavar, default=None, help=shown)
    return click.option(option.flag, option.name, is_flag=True, default=None, help=shown)
