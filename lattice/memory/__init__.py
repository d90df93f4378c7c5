"""Every contract, kept in the memory of one process."""
