"""What a shell command would write, read off its syntax tree before it runs."""
