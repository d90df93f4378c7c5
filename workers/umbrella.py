"""``lattice``: the umbrella command. A subcommand's module is loaded when it is asked for."""

import importlib

import click

from workers.process import main_of

__all__ = ["main"]

COMMANDS = {
    "up": ("workers.up:up", "Start everything for a team on this machine."),
    "demo": ("workers.demo:demo", "Watch a bundled team review the code in a folder."),
    "runs": ("workers.runs:runs", "List the newest runs."),
    "show": ("workers.runs:show", "Show one run: its work items and its result."),
    "cancel": ("workers.runs:cancel", "Cancel a run and everything that works for it."),
    "interrupt": ("workers.runs:interrupt", "Have a run end once what is under way has ended."),
    "resume": ("workers.runs:resume", "Let a failed run go on."),
    "doctor": ("workers.doctor:doctor", "Check Redis, the app and the processes, or say why a run is stuck."),
    "dead": ("workers.dead:dead", "List, show, requeue or drop dead letters."),
    "inbox": ("workers.inbox:inbox", "List the messages of a member's mailbox."),
}


class LazyGroup(click.Group):
    """A group that imports a command when it is used; listing them imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """Import and return a command."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), f"{COMMANDS[cmd_name][0]} is a command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_where, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agent-lattice", prog_name="lattice")
def lattice() -> None:
    """Teams of agents that work as separate processes on Redis."""


main = main_of(lattice)
