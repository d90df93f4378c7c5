"""The settings of every command: flag, then ``LATTICE_*`` variable, then ``[tool.lattice]``, then default."""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from lattice.errors import OptionError

__all__ = ["OPTIONS", "Option", "Settings", "SettingsError", "load_settings", "parse_duration", "parse_size"]

PREFIX = "LATTICE_"
FREE_PREFIXES = ("LATTICE_DEMO_", "LATTICE_TEST_", "LATTICE_BENCH_", "LATTICE_SUPERVISED")
"""Variables of the bundled demo, of tests, of benchmarks and of the supervisor; they are no settings."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+)\s*(b|kib|mib|gib)?", re.IGNORECASE)
_BYTES = {"b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_LEVELS = ("debug", "info", "warning", "error", "critical")
_FORMATS = ("json", "console")


class SettingsError(OptionError):
    """Settings that cannot be used; the message lists all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a command was told. Durations are seconds; None means that nothing was said and the command decides."""

    app: str | None = None
    redis_url: str | None = None
    member: str | None = None
    concurrency: int | None = None
    burst: bool = False
    lease: float = 30.0
    max_attempts: int = 3
    drain_timeout: float = 60.0
    retention: float = 7 * 86400.0
    max_message_bytes: int = 1024**2
    max_conversation_bytes: int = 64 * 1024**2
    max_mailbox_depth: int = 100_000
    max_events: int = 100_000
    max_dead_letters: int = 10_000
    log_level: str = "info"
    log_format: str | None = None
    health_port: int | None = None
    metrics_port: int | None = None

    def to_environment(self) -> dict[str, str]:
        """Return the ``LATTICE_*`` variables that tell a child process the same, passwords included.

        What was not said is empty, so that a variable of our own environment does not say it.
        """
        told = {option.variables[0]: getattr(self, option.name) for option in OPTIONS.values()}
        return {name: "" if value is None else _as_text(value) for name, value in told.items()}

    @property
    def lease_ms(self) -> int:
        """The lease in whole milliseconds."""
        return round(self.lease * 1000)

    @property
    def retention_ms(self) -> int:
        """The retention in whole milliseconds."""
        return round(self.retention * 1000)


@dataclass(frozen=True, slots=True)
class Option:
    """One setting as a user meets it: its name, how its text is read, and what help says about it."""

    name: str
    read: Callable[[str], Any]
    help: str
    metavar: str = "TEXT"
    also: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The command line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables, the first that is set wins."""
        return (PREFIX + self.name.upper(), *self.also)


def parse_duration(text: str) -> float:
    """Read ``30``, ``30s``, ``5m``, ``1.5h``, ``7d`` or ``250ms`` as seconds.

    Raises:
        OptionError: it is none of these.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise OptionError(f"{text!r} is no duration; write seconds, or 30s, 5m, 2h, 7d")
    return float(match[1]) * _SECONDS[(match[2] or "s").lower()]


def parse_size(text: str) -> int:
    """Read ``1048576``, ``512KiB`` or ``1MiB`` as bytes.

    Raises:
        OptionError: it is none of these.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise OptionError(f"{text!r} is no size; write bytes, or 512KiB, 1MiB")
    return int(match[1]) * _BYTES[(match[2] or "b").lower()]


def _positive(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def checked(text: str) -> Any:
        value = read(text)
        if value <= 0:
            raise OptionError(f"{text!r} is not more than 0")
        return value

    return checked


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,12}", text.strip(), re.ASCII):
        raise OptionError(f"{text!r} is no whole number")
    return int(text)


def _port(text: str) -> int:
    value = _whole(text)
    if not 0 <= value <= 65535:
        raise OptionError(f"{text!r} is no port; ports are 0 to 65535")
    return value


def _yes(text: str) -> bool:
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise OptionError(f"{text!r} is neither true nor false")


def _one_of(words: tuple[str, ...]) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise OptionError(f"{text!r} is none of {', '.join(words)}")
        return word

    return chosen


def _text(text: str) -> str:
    if not text.strip():
        raise OptionError("it is empty; leave it out instead")
    return text.strip()


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("app", _text, "Where the team is: module:attribute. Default: team.py with `team`.", "MODULE:ATTRIBUTE"),
        Option("redis_url", _text, "Where Redis is, for instance redis://localhost:6379/0.", "URL", ("REDIS_URL",)),
        Option("member", _text, "The team member whose mailbox is drained.", "NAME"),
        Option("concurrency", _positive(_whole), "How much is worked on at once in this process.", "N"),
        Option("burst", _yes, "Exit when there is nothing left to do.", ""),
        Option("lease", _positive(parse_duration), "How long a dead process keeps its work. Default: 30s.", "TIME"),
        Option("max_attempts", _positive(_whole), "How often a message may be claimed. Default: 3.", "N"),
        Option("drain_timeout", parse_duration, "How long SIGTERM lets work finish. Default: 60s.", "TIME"),
        Option("retention", _positive(parse_duration), "How long ended runs are kept. Default: 7d.", "TIME"),
        Option("max_message_bytes", _positive(parse_size), "The largest task or report. Default: 1MiB.", "SIZE"),
        Option(
            "max_conversation_bytes",
            _positive(parse_size),
            "The largest conversation that is gone on with. Default: 64MiB.",
            "SIZE",
        ),
        Option("max_mailbox_depth", _positive(_whole), "Unfinished work in one mailbox. Default: 100000.", "N"),
        Option("max_events", _positive(_whole), "Events kept of a run, the newest ones. Default: 100000.", "N"),
        Option("max_dead_letters", _positive(_whole), "Dead letters kept, the newest ones. Default: 10000.", "N"),
        Option("log_level", _one_of(_LEVELS), "debug, info, warning, error or critical. Default: info.", "LEVEL"),
        Option("log_format", _one_of(_FORMATS), "json or console. Default: by whether it is a terminal.", "FORMAT"),
        Option("health_port", _port, "Serve /livez and /readyz on this port.", "PORT"),
        Option("metrics_port", _port, "Serve /metrics on this port.", "PORT"),
    )
}


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Gather the settings of a command; ``flags`` whose value is None were not given.

    Raises:
        SettingsError: unknown keys or values that cannot be read; all of them are named at once.
    """
    environ = os.environ if environ is None else environ
    folder = Path.cwd() if folder is None else folder
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    project, faults = _project(folder)
    faults += [_unknown(name, "flag", OPTIONS) for name in given if name not in OPTIONS]
    faults += _unknown_variables(environ)
    values: dict[str, Any] = {}
    for option in OPTIONS.values():
        found = _find(option, given, environ, project)
        if found is None:
            continue
        source, raw = found
        try:
            values[option.name] = option.read(_as_text(raw))
        except OptionError as error:
            faults.append(f"{source}: {error.message}")
    if faults:
        raise SettingsError("these settings cannot be used:\n" + "\n".join(f"  - {fault}" for fault in faults))
    return Settings(**values)


def _find(
    option: Option, given: Mapping[str, Any], environ: Mapping[str, str], project: Mapping[str, Any]
) -> tuple[str, Any] | None:
    if option.name in given:
        return option.flag, given[option.name]
    for variable in option.variables:
        if environ.get(variable):
            return variable, environ[variable]
    if option.name in project:
        return f"[tool.lattice] {option.name}", project[option.name]
    return None


def _as_text(raw: Any) -> str:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, (str, int, float)):
        return str(raw)
    raise OptionError(f"{raw!r} is neither text nor number")


def _project(folder: Path) -> tuple[dict[str, Any], list[str]]:
    path = folder / "pyproject.toml"
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError) as error:
        return {}, [f"{path} cannot be read: {error}"]
    section = table.get("tool", {}).get("lattice", {})
    if not isinstance(section, dict):
        return {}, [f"{path}: [tool.lattice] is no table"]
    project = {str(key).replace("-", "_"): value for key, value in section.items()}
    return project, [_unknown(key, "key in [tool.lattice]", OPTIONS) for key in project if key not in OPTIONS]


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    known = [option.variables[0] for option in OPTIONS.values()]
    return [_unknown(name, "variable", known) for name in _strangers(environ, known)]


def _strangers(environ: Mapping[str, str], known: list[str]) -> Iterator[str]:
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known and not name.startswith(FREE_PREFIXES):
            yield name


def _unknown(name: str, what: str, known: Mapping[str, Any] | list[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return f"{name} is an unknown {what}; {hint}"


assert {field.name for field in fields(Settings)} == set(OPTIONS), "Settings and OPTIONS name the same things"
