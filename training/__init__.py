"""A run: its model, trainer, folder, checkpoints, guards and memory."""

import schema  # noqa: F401 - what libraries read when they are imported
