"""A team that reviews the code in a folder; ``lattice demo`` runs it."""
