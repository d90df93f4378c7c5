"""Files of JSON lines: histories and traces."""
