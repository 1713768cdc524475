"""What the command line does: one module a group of commands, each function gives an exit code."""
