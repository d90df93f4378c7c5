"""Finding the team that a command works for."""

import importlib
import inspect
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lattice.errors import AppError

if TYPE_CHECKING:
    from lattice.team.team import Team

__all__ = ["LoadedApp", "load_app"]

DEFAULT_APP = "team:team"


@dataclass(frozen=True, slots=True)
class LoadedApp:
    """A team and the ``module:attribute`` it was found at, for the command line of child processes."""

    team: "Team"
    app: str


def load_app(app: str | None, *, folder: Path | None = None) -> LoadedApp:
    """Import the team at ``app``; without one, ``team.py`` with ``team`` in ``folder`` (default: the current one).

    The folder is importable. The attribute is a Team, or a function without arguments that returns one.

    Raises:
        AppError: there is no app, it fails to import (with its own traceback), or it is no team.
    """
    folder = Path.cwd() if folder is None else folder
    where = app if app is not None else _default(folder)
    module_name, attribute = _split(where)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module = _import(module_name, where, folder)
    return LoadedApp(_as_team(_attribute(module, attribute, where), where), where)


def _default(folder: Path) -> str:
    if (folder / "team.py").is_file():
        return DEFAULT_APP
    raise AppError(
        "no app found. Looked at --app, LATTICE_APP, [tool.lattice] app in "
        f"{folder / 'pyproject.toml'}, and {folder / 'team.py'}.\n"
        "Name the team as module:attribute, for instance --app myapp.team:team, or write a team.py that defines `team`."
    )


def _split(where: str) -> tuple[str, str]:
    module_name, colon, attribute = where.partition(":")
    parts = module_name.split(".")
    if not colon or not attribute or not all(part.isidentifier() for part in parts):
        raise AppError(f"app {where!r} is not of the form module:attribute, for instance myapp.team:team")
    return module_name, attribute


def _import(module_name: str, where: str, folder: Path) -> Any:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise AppError(
                f"app {where!r}: there is no module {error.name!r}. Looked in {folder} and in the installed packages."
            ) from None
        raise AppError(_own_traceback(where, error)) from error
    except (Exception, SystemExit) as error:
        raise AppError(_own_traceback(where, error)) from error


def _own_traceback(where: str, error: BaseException) -> str:
    frames = error.__traceback__
    while frames is not None and _is_machinery(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    shown = "".join(traceback.format_exception(type(error), error, frames)).rstrip()
    return f"app {where!r} failed:\n{shown}"


def _is_machinery(filename: str) -> bool:
    return filename in (__file__, importlib.__file__) or filename.startswith("<frozen importlib")


def _attribute(module: Any, path: str, where: str) -> Any:
    found = module
    for name in path.split("."):
        if not hasattr(found, name):
            offered = ", ".join(sorted(key for key in vars(module) if not key.startswith("_"))) or "nothing"
            raise AppError(f"app {where!r}: {module.__name__} has no {name!r}. It defines {offered}.")
        found = getattr(found, name)
    return found


def _as_team(found: Any, where: str) -> "Team":
    from lattice.team.team import Team  # noqa: PLC0415 - the team machinery is loaded by those who need it

    if inspect.isfunction(found) or inspect.isbuiltin(found):
        try:
            found = found()
        except Exception as error:
            raise AppError(_own_traceback(where, error)) from error
        if inspect.isawaitable(found):
            getattr(found, "close", lambda: None)()
            raise AppError(f"app {where!r} is an async function; write a plain one that returns the team")
    if not isinstance(found, Team):
        raise AppError(f"app {where!r} is a {type(found).__name__}, not a team; make it with create_team(...)")
    return found
