"""What the tracers of several technologies have in common."""
