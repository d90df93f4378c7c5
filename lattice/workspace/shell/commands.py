"""Which arguments of well-known commands are written, and which commands only run another one."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lattice.workspace.shell.words import Values

__all__ = ["PLAIN_OPTIONS", "WRAPPERS", "XARGS_VALUES", "Arguments", "parse_arguments", "written"]

Arguments = list[Values]


@dataclass(frozen=True, slots=True)
class _Rule:
    """``operands`` says which operands are written: all, last, rest (all but the first), first or none.

    ``flags`` are options whose value is written; ``values`` are other options that take a value.
    """

    operands: str = "all"
    flags: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(slots=True)
class Parsed:
    """A command line taken apart."""

    operands: Arguments = field(default_factory=list)
    targets: Arguments = field(default_factory=list)
    flags: set[str] = field(default_factory=set)


_INTO = ("-t", "--target-directory")
_RULES: dict[str, _Rule] = {
    "mkdir": _Rule(values=("-m", "--mode")),
    "touch": _Rule(values=("-d", "-t", "-r", "--date", "--reference", "--time")),
    "rm": _Rule(),
    "rmdir": _Rule(),
    "unlink": _Rule(),
    "tee": _Rule(),
    "shred": _Rule(values=("-n", "-s", "--iterations", "--size")),
    "mkfifo": _Rule(values=("-m", "--mode")),
    "truncate": _Rule(values=("-s", "-r", "--size", "--reference")),
    "mv": _Rule(flags=_INTO, values=("-S", "--suffix")),
    "ln": _Rule(flags=_INTO, values=("-S", "--suffix")),
    "link": _Rule(),
    "cp": _Rule("last", _INTO, ("-S", "--suffix")),
    "install": _Rule("last", _INTO, ("-m", "-o", "-g", "-S", "--mode", "--owner", "--group", "--suffix")),
    "rsync": _Rule("last", ("--log-file", "--backup-dir"), ("-e", "--rsh", "--exclude", "--include", "-f")),
    "scp": _Rule("last", (), ("-P", "-i", "-o", "-F", "-J")),
    "chmod": _Rule("rest", (), ("--reference",)),
    "chown": _Rule("rest", (), ("--reference",)),
    "chgrp": _Rule("rest", (), ("--reference",)),
    "sort": _Rule("none", ("-o", "--output"), ("-k", "-t", "-S", "-T", "--key")),
    "sponge": _Rule(),
    "dos2unix": _Rule(),
    "unix2dos": _Rule(),
    "mknod": _Rule("first", (), ("-m", "--mode")),
    "mktemp": _Rule(flags=("-p", "--tmpdir"), values=("--suffix",)),
    "rename": _Rule("rest"),
    "uniq": _Rule("rest", (), ("-f", "-s", "-w")),
    "shuf": _Rule("none", ("-o", "--output"), ("-n", "-i", "-e")),
    "iconv": _Rule("none", ("-o", "--output"), ("-f", "-t")),
    "cc": _Rule("none", ("-o",), ("-I", "-L", "-l", "-D", "-x")),
    "gcc": _Rule("none", ("-o",), ("-I", "-L", "-l", "-D", "-x")),
    "clang": _Rule("none", ("-o",), ("-I", "-L", "-l", "-D", "-x")),
    "g++": _Rule("none", ("-o",), ("-I", "-L", "-l", "-D", "-x")),
    "ed": _Rule("first"),
    "ex": _Rule("all"),
    "vi": _Rule("all"),
    "vim": _Rule("all"),
    "gzip": _Rule(values=("-S",)),
    "gunzip": _Rule(values=("-S",)),
    "bzip2": _Rule(),
    "bunzip2": _Rule(),
    "xz": _Rule(),
    "unxz": _Rule(),
    "zip": _Rule("first", ("-O",), ("-x", "-i", "-P")),
    "split": _Rule("rest", (), ("-b", "-l", "-n", "-a", "-C", "--bytes", "--lines")),
}
_Special = Callable[[Arguments], Arguments]

WRAPPERS: dict[str, tuple[int, tuple[str, ...]]] = {
    "sudo": (0, ("-u", "-g", "-h", "-p", "-T", "-r", "-t", "-U", "--user", "--group", "--host", "--prompt")),
    "doas": (0, ("-u", "-C")),
    "env": (0, ("-u", "--unset")),
    "nice": (0, ("-n", "--adjustment")),
    "ionice": (0, ("-c", "-n", "-p", "-P", "-u", "--class", "--classdata")),
    "nohup": (0, ()),
    "time": (0, ("-f", "--format")),
    "timeout": (1, ("-s", "-k", "--signal", "--kill-after")),
    "stdbuf": (0, ("-i", "-o", "-e", "--input", "--output", "--error")),
    "flock": (1, ("-w", "-E", "--timeout", "--wait")),
    "setsid": (0, ()),
    "command": (0, ()),
    "builtin": (0, ()),
    "exec": (0, ("-a",)),
    "busybox": (0, ()),
    "coproc": (0, ()),
    "unbuffer": (0, ()),
    "chronic": (0, ()),
}
"""Commands that run the one after them: how many operands of their own come first, and their options with values."""

PLAIN_OPTIONS = {
    "--preserve-env",
    "--login",
    "--non-interactive",
    "--background",
    "--set-home",
    "--ignore-environment",
    "--foreground",
    "--preserve-status",
    "--verbose",
    "--wait",
    "--fork",
    "--exclusive",
    "--nonblock",
    "--null",
    "--no-run-if-empty",
    "--interactive",
    "--exit",
}
"""Long options of such commands, and of xargs, that take no value."""

XARGS_VALUES = {
    "-n",
    "-P",
    "-L",
    "-d",
    "-s",
    "-a",
    "-E",
    "-I",
    "-j",
    "--max-args",
    "--max-procs",
    "--max-lines",
    "--delimiter",
    "--max-chars",
    "--arg-file",
}
"""Options of xargs and parallel that take a value."""


def written(name: str, arguments: Arguments) -> Arguments:
    """Return the arguments that ``name`` would write; a value of None stands for one that cannot be known."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(arguments)
    rule = _RULES.get(name)
    if rule is None:
        return []
    parsed = parse_arguments(arguments, rule.flags, rule.values)
    if name == "install" and parsed.flags & {"-d", "--directory"}:
        return parsed.operands
    if parsed.targets and rule.flags == _INTO and name != "mv":
        return parsed.targets
    return [*parsed.targets, *_pick(parsed.operands, rule.operands)]


def parse_arguments(arguments: Arguments, flags: tuple[str, ...] = (), values: tuple[str, ...] = ()) -> Parsed:
    """Take arguments apart as getopt does; what cannot be known counts as an operand."""
    parsed = Parsed()
    waiting: str | None = None
    only_operands = False
    for argument in arguments:
        text = argument[0] if argument else ""
        if waiting is not None:
            if waiting == "target":
                parsed.targets.append(argument)
            waiting = None
        elif only_operands or argument is None or not text.startswith("-") or text == "-":
            parsed.operands.append(argument)
        elif text == "--":
            only_operands = True
        else:
            waiting = _take_option(text, parsed, flags, values)
    return parsed


def _take_option(text: str, parsed: Parsed, flags: tuple[str, ...], values: tuple[str, ...]) -> str | None:
    """Read one option; returns ``"target"`` or ``"value"`` if the next argument belongs to it."""
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        parsed.flags.add(name)
        is_target = any(flag.startswith(name) for flag in flags)
        if equals and is_target:
            parsed.targets.append([value])
        if equals:
            return None
        return "target" if is_target else "value" if name in values else None
    for index, letter in enumerate(text[1:], 1):
        flag, rest = f"-{letter}", text[index + 1 :]
        parsed.flags.add(flag)
        if flag in flags and rest:
            parsed.targets.append([rest])
        if flag in flags or flag in values:
            return None if rest else "target" if flag in flags else "value"
    return None


def _pick(operands: Arguments, which: str) -> Arguments:
    if which == "last":
        return operands[-1:] if len(operands) > 1 or None in operands else []
    return {"all": operands, "rest": operands[1:], "first": operands[:1]}.get(which, [])


def _dd(arguments: Arguments) -> Arguments:
    found: Arguments = []
    for argument in arguments:
        if argument is None:
            found.append(None)
        else:
            found.extend([text[3:]] for text in argument if text.startswith("of="))
    return found


def _in_place(arguments: Arguments) -> Arguments:
    """sed, perl and ruby: with ``-i`` the files are rewritten; without ``-e`` the first operand is the script."""
    texts = [argument[0] for argument in arguments if argument]
    long = [text.partition("=")[0] for text in texts if text.startswith("--") and len(text) > 2]
    short = [text for text in texts if text.startswith("-") and not text.startswith("--")]
    if not any("--in-place".startswith(text) for text in long) and not any("i" in text for text in short):
        return []
    parsed = parse_arguments(arguments, (), ("-e", "-f", "-E", "--expression", "--file", "-l", "-M", "-I"))
    scripted = parsed.flags & {"-e", "-f", "-E", "--expression", "--file"}
    # -i.bak reads as a cluster of letters that may hold an "e"; then the script counts as a file, which does no harm.
    return parsed.operands if scripted else parsed.operands[1:]


def _curl(arguments: Arguments) -> Arguments:
    parsed = parse_arguments(
        arguments,
        ("-o", "--output", "--output-dir", "-D", "--dump-header", "-c", "--cookie-jar", "--trace"),
        ("-H", "-d", "-X", "-u", "-A", "-b", "-e", "-F", "-m", "-x", "-T", "-w", "--header", "--data", "--request"),
    )
    here = parsed.flags & {"-O", "--remote-name", "--remote-name-all"}
    return [*parsed.targets, *([["."]] if here else [])]


def _wget(arguments: Arguments) -> Arguments:
    parsed = parse_arguments(
        arguments,
        ("-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file", "-a"),
        ("-t", "-T", "-U", "-i", "--header"),
    )
    return parsed.targets or [["."]]


def _tar(arguments: Arguments) -> Arguments:
    first = arguments[0] if arguments else None
    if first and not first[0].startswith("-"):
        arguments = [["-" + first[0]], *arguments[1:]]
    parsed = parse_arguments(arguments, ("-f", "--file", "-C", "--directory"), ("-T", "-X", "--exclude"))
    if parsed.flags & {"-x", "--extract", "--get"}:
        into = parse_arguments(arguments, ("-C", "--directory"), ("-f", "--file", "-T", "-X", "--exclude")).targets
        return into or [["."]]
    if parsed.flags & {"-c", "-r", "-u", "--create", "--append", "--update"}:
        return parse_arguments(arguments, ("-f", "--file"), ("-C", "--directory", "-T", "-X", "--exclude")).targets
    return []


def _unzip(arguments: Arguments) -> Arguments:
    parsed = parse_arguments(arguments, ("-d",), ("-x", "-P"))
    return [] if parsed.flags & {"-l", "-t", "-p", "-Z"} else parsed.targets or [["."]]


def _patch(arguments: Arguments) -> Arguments:
    parsed = parse_arguments(arguments, ("-o", "--output", "-r", "-d", "--directory"), ("-i", "-p", "--input"))
    return [*parsed.targets, *(parsed.operands[:1] or [["."]])]


_SPECIAL: dict[str, _Special] = {
    "dd": _dd,
    "sed": _in_place,
    "gsed": _in_place,
    "perl": _in_place,
    "ruby": _in_place,
    "curl": _curl,
    "wget": _wget,
    "tar": _tar,
    "unzip": _unzip,
    "patch": _patch,
}
