"""The operating system: child processes, signals, ports and interpreters."""
