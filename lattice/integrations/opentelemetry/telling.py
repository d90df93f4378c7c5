"""An exporter whose failures are said once and counted, and never reach the work."""

import logging
import threading
from typing import Any

from opentelemetry import metrics

__all__ = ["Telling"]

_log = logging.getLogger("lattice.telemetry")
_EXPORTERS = "opentelemetry.exporter.otlp.proto.http"


class Telling:
    """Stands for another exporter; ``what`` is what it exports.

    The exporter's own complaints, one for each try, are not shown: that the backend is away is said when it begins,
    that it is back when it ends, and ``lattice.telemetry.lost`` counts the exports in between.
    """

    def __init__(self, exporter: Any, what: str) -> None:
        self._exporter = exporter
        self._what = what
        self.is_away = False
        self._lock = threading.Lock()
        self._lost = metrics.get_meter("lattice").create_counter(
            "lattice.telemetry.lost", unit="{export}", description="Exports that the telemetry backend did not take."
        )
        logging.getLogger(_EXPORTERS).setLevel(logging.CRITICAL)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)

    def export(self, *args: Any, **kwargs: Any) -> Any:
        """Export, and look at what came of it."""
        outcome = self._exporter.export(*args, **kwargs)
        failed = getattr(outcome, "name", "") == "FAILURE"
        with self._lock:
            changed, self.is_away = failed != self.is_away, failed
        if failed:
            self._lost.add(1, {"lattice.signal": self._what})
        if changed and failed:
            _log.warning("the telemetry backend does not take %s; work goes on, and this is not repeated", self._what)
        elif changed:
            _log.info("the telemetry backend takes %s again", self._what)
        return outcome

    def cut_off(self) -> None:
        """Give up on what is under way, retries included."""
        self._exporter.shutdown()
