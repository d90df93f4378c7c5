"""Asks a process on this machine for its health; for containers: ``python -m workers.probe /livez``."""

import http.client
import os
import sys

__all__ = ["main"]

_PATIENCE = 4.0


def main(arguments: list[str]) -> int:
    """Return 0 if the path (``/livez`` by default) is answered with 200 on the health port, else 1."""
    path = arguments[0] if arguments else "/livez"
    port = os.environ.get("LATTICE_HEALTH_PORT", "")
    if not port.isdigit():
        print("LATTICE_HEALTH_PORT is not set", file=sys.stderr)
        return 1
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=_PATIENCE)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        print(answer.read().decode("utf-8", "replace"))
    except OSError as error:
        print(f"nobody answers on port {port}: {error}", file=sys.stderr)
        return 1
    finally:
        connection.close()
    return 0 if answer.status == http.HTTPStatus.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
