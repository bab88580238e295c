"""Writes a run's page while it trains."""

from pathlib import Path

from transformers import TrainerCallback

from viewer import page


class WritePage(TrainerCallback):
    """Writes the page into a run's folder after each evaluation of the training."""

    def __init__(self, folder: Path):
        self.folder = folder

    def on_evaluate(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            page.write_beside(self.folder)
