"""What this machine can do, and how a stage is started on it."""
