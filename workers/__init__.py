"""The processes: they start, stop and wire what ``lattice`` does, and nothing imports them."""
