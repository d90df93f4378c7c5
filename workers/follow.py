"""What a followed run looks like: lines of who does what, and text as it streams."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from workers.progress import describe

__all__ = ["Follower", "follow_view"]

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red")


class Screen(Protocol):
    """Where lines go."""

    def line(self, who: str, text: str) -> None:
        """Show a line that stays."""
        ...

    def streaming(self, texts: Mapping[str, str]) -> None:
        """Show the unfinished lines, by who says them."""
        ...


class Follower:
    """Turns events in wire form into lines. A text that streamed is not shown again when its message arrives."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._unfinished: dict[str, str] = {}
        self._streamed: set[str] = set()

    def show(self, event: Mapping[str, Any]) -> None:
        """Show what a person wants to know of an event."""
        if event.get("type") == "stream_event":
            self._stream(_speaker(event), event.get("event") or {})
            return
        for who, text in describe(_without_text(event) if self._was_streamed(event) else event):
            self._screen.line(who, text)

    def _stream(self, who: str, event: Mapping[str, Any]) -> None:
        delta = event.get("delta") or {}
        if event.get("type") == "content_block_delta" and delta.get("type") == "text_delta":
            self._streamed.add(who)
            *lines, rest = (self._unfinished.get(who, "") + str(delta.get("text", ""))).split("\n")
            for line in filter(str.strip, lines):
                self._screen.line(who, line)
            self._unfinished[who] = rest
        elif event.get("type") in ("content_block_stop", "message_stop"):
            self._finish(who)
        self._screen.streaming({name: text for name, text in self._unfinished.items() if text})

    def _finish(self, who: str) -> None:
        rest = self._unfinished.pop(who, "")
        if rest.strip():
            self._screen.line(who, rest)

    def _was_streamed(self, event: Mapping[str, Any]) -> bool:
        message = event.get("message") or {}
        if event.get("type") != "assistant" and message.get("type") != "assistant":
            return False
        who = _speaker(event)
        self._finish(who)
        if who not in self._streamed:
            return False
        self._streamed.discard(who)
        return True


def _speaker(event: Mapping[str, Any]) -> str:
    source = event.get("source") or {}
    return "lead" if source.get("kind", "root") == "root" else str(source.get("member") or source.get("name") or "lead")


def _without_text(event: Mapping[str, Any]) -> dict[str, Any]:
    if event.get("type") != "assistant":
        return {**event, "message": _without_text(event["message"])}
    body = event.get("message") or {}
    content = body.get("content")
    kept = [block for block in content if block.get("type") != "text"] if isinstance(content, list) else []
    return {**event, "message": {**body, "content": kept}}


@contextmanager
def follow_view() -> Iterator[Follower]:
    """Show a run on stderr: coloured and live on a terminal, plain lines otherwise."""
    if not sys.stderr.isatty():
        yield Follower(_PlainScreen())
        return
    console = Console(stderr=True, highlight=False)
    with Live(console=console, transient=True, refresh_per_second=12) as live:
        yield Follower(_LiveScreen(live))


class _PlainScreen:
    def line(self, who: str, text: str) -> None:
        click.echo(f"{who} | {text}", err=True)

    def streaming(self, texts: Mapping[str, str]) -> None:
        """Unfinished lines are shown when they are finished."""


class _LiveScreen:
    def __init__(self, live: Live) -> None:
        self._live = live
        self._colours: dict[str, str] = {}

    def line(self, who: str, text: str) -> None:
        self._live.console.print(self._render(who, text))

    def streaming(self, texts: Mapping[str, str]) -> None:
        self._live.update(Group(*(self._render(who, text) for who, text in texts.items())))

    def _render(self, who: str, text: str) -> Text:
        colour = self._colours.setdefault(who, _COLOURS[len(self._colours) % len(_COLOURS)])
        return Text.assemble((who, f"bold {colour}"), ("  ", ""), (text, ""))
