"""The options of the reward model that trl asks."""

from console.faults import Complaints, nearest
from schema.names import LEARNED, REWARD_KEYS, no_such_folder
from schema.values import RULES

# All options of a reward model: trl asks it itself, and knows no others.
OF_LEARNED = {
    "model": RULES["model"]["name_or_path"],
    "revision": RULES["model"]["revision"],
    "weight": REWARD_KEYS["weight"],
}


def reward_model_faults(options: dict) -> Complaints:
    """What is wrong with the options of the recipe's reward model."""
    about = f"rewards.{LEARNED}"
    refusals = {}
    for key, value in options.items():
        if key in OF_LEARNED:
            refusals[key] = OF_LEARNED[key].refusal(value)
        else:
            near = nearest(key, OF_LEARNED)
            refusals[key] = f"trl asks the model itself, which has no such option{near}"
    if "model" not in options:
        yield (LEARNED,), f"{about}: it needs a `model`: {OF_LEARNED['model'].words}"
    elif not refusals["model"]:
        refusals["model"] = no_such_folder(options["model"])
    for key, refusal in refusals.items():
        if refusal:
            yield (LEARNED, key), f"{about}.{key}: {refusal}"
