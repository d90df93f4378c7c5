"""The names of all keys of a team; nothing else puts a key together, but for the scripts under the same prefix."""

from lattice.errors import OptionError

__all__ = ["Keys"]

_FORBIDDEN = set("{}:*?[]\\ \t\r\n")


class Keys:
    """Key names of one team; the hash tag keeps them in one slot, so that one script may use several.

    Raises:
        OptionError: the team's name cannot stand in a key.
    """

    __slots__ = ("prefix",)

    def __init__(self, team: str) -> None:
        if not team or _FORBIDDEN & set(team):
            raise OptionError(f"team {team!r} cannot name keys in Redis: use letters, digits, '-', '_' and '.'")
        self.prefix = f"lattice:{{{team}}}:"

    @property
    def leases(self) -> str:
        """Sorted set: ``message:<id>`` and ``run:<id>`` by the end of their lease (epoch ms)."""
        return f"{self.prefix}leases"

    @property
    def runs(self) -> str:
        """Sorted set: run ids by submission."""
        return f"{self.prefix}runs"

    @property
    def nested(self) -> str:
        """Hash: runs of a team inside another that have not ended, with the outer message that each works on."""
        return f"{self.prefix}nested"

    @property
    def retention(self) -> str:
        """Sorted set: ended runs, and messages without a run, by the time at which they are forgotten."""
        return f"{self.prefix}retention"

    @property
    def dead(self) -> str:
        """Stream: messages that ran out of attempts."""
        return f"{self.prefix}dead"

    @property
    def delayed(self) -> str:
        """Sorted set: messages that wait for their next try, by the time at which they are due."""
        return f"{self.prefix}delayed"

    @property
    def depths(self) -> str:
        """Hash: unfinished tasks by mailbox key."""
        return f"{self.prefix}depths"

    @property
    def sequence(self) -> str:
        """Counter: the order of messages and runs."""
        return f"{self.prefix}sequence"

    @property
    def processes(self) -> str:
        """Sorted set: live processes by the time at which they count as dead; ``:info`` says what they are."""
        return f"{self.prefix}processes"

    @property
    def looking(self) -> str:
        """Mark that lasts as long as somebody looks for expired leases."""
        return f"{self.prefix}looking"

    @property
    def grace(self) -> str:
        """Mark that lasts as long as no expired lease is taken away, because nobody could renew one for a while."""
        return f"{self.prefix}grace"

    def mailbox(self, member: str) -> str:
        """Stream: claimable messages; group ``workers``."""
        return f"{self.prefix}mailbox:{member}"

    def returned(self, member: str) -> str:
        """List: messages that are pending again; they are claimed first."""
        return f"{self.prefix}mailbox:{member}:returned"

    def doorbell(self, member: str) -> str:
        """List: one token wakes one idle worker."""
        return f"{self.prefix}mailbox:{member}:doorbell"

    def message(self, message_id: str) -> str:
        """Hash: one message."""
        return f"{self.prefix}message:{message_id}"

    def index(self, member: str) -> str:
        """Sorted set: all messages of a mailbox in send order."""
        return f"{self.prefix}index:{member}"

    def counts(self, member: str) -> str:
        """Hash: messages of a mailbox by status."""
        return f"{self.prefix}counts:{member}"

    def notes(self, member: str) -> str:
        """Sorted set: notes to a mailbox that no working agent has been shown, in send order."""
        return f"{self.prefix}notes:{member}"

    def conversation(self, name: str) -> str:
        """List: model messages as JSON."""
        return f"{self.prefix}conversation:{name}"

    def busy(self, name: str) -> str:
        """Text: the message whose turn it is in a conversation that several share."""
        return f"{self.prefix}conversation:{name}:busy"

    def entered(self, name: str) -> str:
        """Set: ids of messages and batches whose text stands in a conversation."""
        return f"{self.prefix}conversation:{name}:entered"

    def journal(self, name: str) -> str:
        """Hash: the tool calls of a conversation's open batch."""
        return f"{self.prefix}journal:{name}"

    def batch(self, batch_id: str) -> str:
        """Hash: who waits for a batch, for how many, and its messages in order."""
        return f"{self.prefix}batch:{batch_id}"

    def run(self, run_id: str) -> str:
        """Hash: one run."""
        return f"{self.prefix}run:{run_id}"

    def run_messages(self, run_id: str) -> str:
        """List: ids of all messages of a run."""
        return f"{self.prefix}run:{run_id}:messages"

    def events(self, run_id: str) -> str:
        """Stream: what a run shows."""
        return f"{self.prefix}run:{run_id}:events"

    def deltas(self, run_id: str) -> str:
        """Stream: text as it comes from models; written while somebody follows."""
        return f"{self.prefix}run:{run_id}:deltas"

    def followers(self, run_id: str) -> str:
        """Mark that lasts as long as somebody follows a run."""
        return f"{self.prefix}run:{run_id}:followers"

    def provider_pause(self, provider: str) -> str:
        """Text that lasts as long as no request may go to a model provider; ``provider`` is a digest, never a key."""
        return f"{self.prefix}provider:{provider}:pause"

    @property
    def doctor(self) -> str:
        """A key that ``lattice doctor`` tries its rights on; it is gone at once."""
        return f"{self.prefix}doctor:rights"

    def signals(self, process_id: str) -> str:
        """List: what a process is told."""
        return f"{self.prefix}signals:{process_id}"
