"""How a stage is started: its recipe and overrides, the launcher's file, and how many processes there will be."""

import argparse
import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from schema.faults import Fault, RecipeError, nearest_or_all
from schema.recipe import Recipe, read_recipe
from schema.stages import SECTIONS
from schema.strict_yaml import Unreadable, text_of, value_of


def recipe_arguments(parser: argparse.ArgumentParser):
    """The two arguments every stage takes."""
    parser.add_argument("recipe", help="recipes/x.yaml")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="override a key of the recipe")


def launch_arguments(parser: argparse.ArgumentParser):
    """How the recipe will be launched."""
    parser.add_argument("--accelerate", help="the name of a file of accelerate_configs/ the recipe will run under")
    parser.add_argument("--processes", help="how many processes it will have, where not as that file says")


def launch(accelerate: str | None, given: str | None, machines: int | None = None) -> dict:
    """The values of a file of accelerate_configs/, and how many processes there will be, on how many machines.

    Raises:
        RecipeError: there is no such file, several processes and no file to launch them by, or no number of them.
    """
    if given is not None and not re.fullmatch("[1-9][0-9]{0,5}", given):  # which a shell reads as the same number
        raise RecipeError([f"PROCESSES={given}: expected a whole number of at least 1"])
    processes = int(given) if given else None
    if accelerate is None and (processes or 1) > 1:
        raise RecipeError([f"PROCESSES={processes} is for a launcher: name one too, such as ACCELERATE=ddp"])
    if accelerate is None:
        return {"num_processes": 1}
    file = Path("accelerate_configs") / f"{accelerate}.yaml"
    if not file.is_file():
        known = sorted(path.stem for path in file.parent.glob("*.yaml"))
        raise RecipeError([f"ACCELERATE={accelerate}: there is no file {file}{nearest_or_all(accelerate, known)}"])
    try:
        values = value_of(text_of(file))
    except Unreadable as error:
        raise RecipeError([Fault(str(file), str(error))]) from None
    if not isinstance(values, dict):
        raise RecipeError([Fault(str(file), "is no file for accelerate")])
    values |= {"num_processes": processes or values.get("num_processes", 1)}
    values |= {"num_machines": machines or values.get("num_machines", 1)}
    for key in ("num_processes", "num_machines"):
        if type(values[key]) is not int or values[key] < 1:
            raise RecipeError([Fault(str(file), f"{key}: expected a whole number of at least 1, got {values[key]!r}")])
    return values


def shares_weights(launched: dict) -> bool:
    """Whether a process holds only a part of each weight: with ZeRO-3 or FSDP."""
    zero = (launched.get("deepspeed_config") or {}).get("zero_stage")
    return zero == 3 or launched.get("distributed_type") == "FSDP"


def read_for(
    launched: dict, path: str | Path, overrides: list[str], check: tuple[str, ...] = tuple(SECTIONS)
) -> tuple[Recipe | None, list[Fault]]:
    """`read_recipe` as the processes of a launch will."""
    with counted(launched):
        return read_recipe(path, overrides, check if launched["num_processes"] == 1 else ())


@contextlib.contextmanager
def counted(launched: dict) -> Iterator[None]:
    """In the block there are as many processes as the launch will have."""
    if launched["num_processes"] == 1:
        yield
        return
    os.environ["WORLD_SIZE"] = str(launched["num_processes"])
    try:
        yield
    finally:
        del os.environ["WORLD_SIZE"]  # the libraries would wait for the other processes
