"""Other technologies, one a module; none is imported before it is used."""
