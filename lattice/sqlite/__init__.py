"""A team's mailboxes in SQLite."""
