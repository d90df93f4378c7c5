"""What a tool is and how a batch of tool calls is run."""
