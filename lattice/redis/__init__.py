"""Everything that talks to Redis, but for RQ."""
