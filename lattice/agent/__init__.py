"""The agent in one process: the loop between a model and its tools."""
