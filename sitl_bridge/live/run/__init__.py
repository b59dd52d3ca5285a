"""Shows a run and takes its commands, whatever the outlet: snapshots, messages, the queue of commands."""
