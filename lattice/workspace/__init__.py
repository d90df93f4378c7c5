"""Where an agent may read and write."""
