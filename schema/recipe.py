"""Reading a recipe, a strict YAML file. All its faults are reported together, before any weight is
loaded."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from console.faults import (
    Fault,
    Place,
    RecipeError,
    closest,
    dotted,
    item,
    nearest,
    nearest_or_all,
    place_of,
)
from console.terminal import make_option
from data.imports import in_working_tree
from data.problems import is_dotted_path
from schema import configs, rules
from schema.configs import flat
from schema.names import TRL, complaints, entries_of, is_reward_model
from schema.refused_keys import GONE, remedy, reserved
from schema.sections import OWN_SECTIONS
from schema.settings import Machine, Recipe, from_saved
from schema.text import REQUIRED, Unreadable, read_with_bases, value_of
from schema.value_types import type_fault
from schema.values import LOCAL_HOSTS, TYPES

# These stay for schema/rules.py and schema/names.py, which would miss them.
NEEDED = {("model", "build"), ("data", "train"), ("evaluate", "benchmarks")}
COPY_IT = "read it, and copy it to recipes/"
# What a section of a library may hold, for one that is no mapping.
EXAMPLES = {"adapter": "r: 32, target_modules: all-linear", "quantization": "load_in_4bit: true"}
KEYS = (*TYPES["recipe"], *OWN_SECTIONS, "rewards", *configs.SECTIONS)

SPACES = (
    """one with spaces needs quotes of its own: ARGS="'data.train=[arithmetic: {digits: 2}]'\""""
)


def _fields(section: str) -> dict[str, configs.Field]:
    """The keys that a section may have: its library's, or ours."""
    if section in configs.SECTIONS:
        return configs.fields(section)
    declared = fields(OWN_SECTIONS[section])
    return {field.name: configs.Field("", field.default) for field in declared}


def _hint(recipe: dict, *names: str) -> str:
    """What to write for a key that is not taken where it stands: what is said of a name that is
    gone or is another library's, or the sections that have the key, or the reason why no recipe may
    set it. The sections of the recipe win over others. Empty for an unknown key.

    Args:
        names: the key, and before it its name with its section.
    """
    key = names[-1]
    advice = GONE.get(key) or remedy(*names)
    if advice:
        return f": {advice}"
    if key in TYPES["recipe"]:
        return f"; {key} stands at the top of the recipe"
    sections = [name for name in (*OWN_SECTIONS, *configs.SECTIONS) if key in _fields(name)]
    free = [name for name in sections if key not in reserved(name)]
    if free:
        fitting = [name for name in free if name in recipe] or free
        return f"; it is a key of a section: {', '.join(f'{name}.{key}' for name in fitting)}"
    reason = sections and reserved(sections[0])[key]
    return f": {reason}" if reason else ""


def _as_rewards(values: Any) -> str:
    """`: write rewards: {…}` for the names of rewards in a text or a list, as trl takes them; empty
    where there are none."""
    names = values
    if isinstance(values, str):
        names = re.split(r"[,\s]+", values)
    if isinstance(names, list) and all(isinstance(name, dict) for name in names):
        names = [key for name in names for key in name]
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        return ""
    rewards = ", ".join(f"{name}: {{weight: 1}}" for name in names)
    return f": write rewards: {{{rewards}}}"


def _data_sets(recipe: dict) -> Iterator[tuple[tuple, Any]]:
    """Yield the keys of each data set in a recipe, and what should be its name."""
    for keys in (("data", "train"), ("evaluate", "benchmarks")):
        for entry in entries_of(recipe.get(keys[0], {}).get(keys[1])):
            name = next(iter(entry), None) if isinstance(entry, dict) else entry
            yield (*keys, item(entry)), name


class Draft:
    """A recipe on its way from text to `Recipe`: its values, the places of its keys, and its faults
    so far."""

    def __init__(self, path: Path, processes: int = 1, reads_anywhere: bool = False):
        self.path = path
        self.processes = processes
        self.reads_anywhere = reads_anywhere
        self.values: dict[str, Any] = {}
        self.places: dict[tuple, Place] = {}
        self.faults: list[Fault] = []
        self.faulty: list[tuple] = []
        self.files = [str(path)]  # the recipe's own, and its bases'
        self.overrides: list[str] = []

    def fault(self, keys: tuple, message: str):
        self.faulty.append(keys)
        self.faults.append(Fault(self._place(keys), message))

    def _place(self, keys: tuple) -> Place:
        return place_of(keys, self.places, Place(str(self.path)))

    def in_order(self) -> list[Fault]:
        """The faults without repetitions: first of the overrides, then of the file by its lines,
        then of its bases."""
        order = {file: number for number, file in enumerate(self.files)}

        def position(fault: Fault) -> tuple[int, int]:
            return order.get(fault.place.source, -1), fault.place.line

        return sorted(dict.fromkeys(self.faults), key=position)

    # Reading --------------------------------------------------------------------------------------

    def read(self):
        try:
            values, self.places, faults, self.files = read_with_bases(self.path)
        except FileNotFoundError:
            raise RecipeError([self._missing_file()]) from None
        self.values = from_saved(values)
        self.faults += faults

    def _missing_file(self) -> Fault | str:
        if self.path == Path("recipes/.yaml"):  # make completes an empty name to this
            advice = "name one (`make recipes` lists them), or leave it out for tiny-arithmetic"
            return f"RECIPE is empty: {advice}"
        name = re.sub(r"\.ya?ml$", "", self.path.stem)
        if name.endswith(".py"):
            message = "a Python script is no recipe: docs/migrate.md has the keys for its settings"
            return Fault(Place(str(self.path)), message)
        short = self.path.with_name(f"{name}.yml")
        if short.is_file():
            return Fault(Place(str(short)), f"a recipe ends in .yaml: rename it to {name}.yaml")
        recipes = sorted(file.stem for file in Path("recipes").glob("*.yaml"))
        hint = nearest_or_all(name, recipes)
        if name != self.path.stem:
            example = f"as RECIPE={name}, or a path, as RECIPE=./{name}.yaml"
            hint = f"; RECIPE is a name in recipes/, {example}"
        return Fault(Place(str(self.path)), f"no such recipe{hint}")

    def override(self, text: str):
        self.overrides.append(text)
        name, equals, value = text.partition("=")
        name = name.strip()
        keys = tuple(name.split("."))
        # A reward's name may itself contain dots; the last part is its argument, unless the value
        # is its whole mapping.
        if keys[0] == "rewards" and len(keys) > 2:
            if value.lstrip().startswith("{"):
                keys = ("rewards", ".".join(keys[1:]))
            else:
                keys = ("rewards", ".".join(keys[1:-1]), keys[-1])
        place = Place(f"override {text}")
        joined = re.split(r",(?=[a-z_]+(?:\.[\w.]+)?=)", text)
        if len(joined) > 1 and value.lstrip()[:1] not in ("[", "{", '"', "'"):
            message = f"a space separates overrides: write {make_option('ARGS', joined)}"
            self.faults.append(Fault(place, message))
            return
        if not equals or not all(keys):
            self.faults.append(Fault(place, f"write an override as section.key=value; {SPACES}"))
            return
        section = self.values
        for depth, key in enumerate(keys[:-1], 1):
            if section.get(key) is None:
                section[key] = {}
                self.places.setdefault(keys[:depth], place)
            section = section[key]
            if not isinstance(section, dict):
                message = f"{'.'.join(keys[:depth])} is not a section, and has no keys"
                self.faults.append(Fault(place, message))
                return
        try:
            section[keys[-1]] = value_of(value)
        except Unreadable as error:
            self.faults.append(Fault(place, f"{error}; {SPACES}"))
        # The override replaces the key in the file, with all keys below it.
        for file_keys in list(self.places):
            if file_keys[: len(keys)] == keys:
                del self.places[file_keys]
        self.places[keys] = place

    # Checking -------------------------------------------------------------------------------------

    def check(self):
        self._check_sections()
        for key, kind in TYPES["recipe"].items():
            if key in self.values:
                refusal = type_fault(kind, self.values[key])
                if refusal:
                    self.fault((key,), f"{key}: {refusal}")
        for section in self.values:
            if section in KEYS and section not in TYPES["recipe"]:
                self._check_section(section)
        sound = self._sound()
        if not self.reads_anywhere and self._names_functions(sound):
            return  # the next rules import what the names stand for
        broken = rules.broken(sound, processes=self.processes)
        for keys, message in (*broken, *complaints(sound)):
            if isinstance(self.values.get(keys[0]), dict):
                self.fault(keys, f"{dotted(keys)}: {message}")
        self._check_reach(sound)

    def _check_sections(self):
        """Check the names of the sections, and remove those without a value."""
        # A misspelt section without a value counts too: it would not remove the base's section.
        for key in self.values:
            if key == "base":
                self.fault((key,), "base: only a recipe's file names what it builds on")
            elif key not in KEYS:
                self._fault_section(key)
        self.values = {key: value for key, value in self.values.items() if value is not None}
        misspelt = []
        for key in self.values:
            if key not in KEYS:
                misspelt += closest(key, KEYS)
        for key in REQUIRED:
            if key not in self.values and key not in misspelt:
                self.fault((), f"the section `{key}` is missing")

    def _fault_section(self, section: str):
        """Refuse an unknown section; where other libraries have its keys, each in its line."""
        hints = {name: remedy(name) for name in flat({section: self.values[section]})}
        if not any(hints.values()) or section in hints:
            hint = _hint(self.values, section) or nearest(section, (*KEYS, "base"))
            self.fault((section,), f"unknown section {section!r}{hint}")
            return
        for name, hint in hints.items():
            self.fault(tuple(name.split(".")), f"unknown key {name}{hint and f': {hint}'}")

    def _check_section(self, section: str):
        values = self.values[section]
        if not isinstance(values, dict):
            message = f"{section}: expected a mapping, got {values!r}"
            if section == "rewards":
                message += _as_rewards(values)
            elif section in OWN_SECTIONS:
                message += f": write {section}: {{{fields(OWN_SECTIONS[section])[0].name}: …}}"
            else:
                message += f": write {section}: {{{EXAMPLES.get(section, 'max_steps: 100')}}}"
            self.fault((section,), message)
        elif section != "rewards":
            for key, value in values.items():
                message = self._key_refusal(section, key, value)
                if message:
                    self.fault((section, key), message)

    def _names_functions(self, sound: dict) -> bool:
        """Whether a file outside this working tree names functions of the user's: a fault each."""
        functions = []
        for name in sound.get("rewards", {}):
            if "." in name and "/" not in name and not name.startswith(TRL):
                functions.append((("rewards", name), ""))
        for keys, name in _data_sets(sound):
            if isinstance(name, str) and is_dotted_path(name):
                functions.append((keys, f"data set {name!r}: "))
        functions = [function for function in functions if self._is_outside(function[0])]
        for keys, name in functions:
            message = "a recipe outside this working tree may call functions of rewards and of"
            message += f" trl.rewards alone: {COPY_IT}"
            self.fault(keys, f"{dotted(keys)}: {name}{message}")
        return bool(functions)

    def _is_outside(self, keys: tuple) -> bool:
        """Whether a key stands in a file outside this working tree."""
        file = self._place(keys).source
        return file in self.files and not in_working_tree(file)

    def _check_reach(self, sound: dict):
        """Refuse what writes or sends elsewhere, unless the command line asks for it; and in a file
        outside this working tree, which may be a stranger's, what reads elsewhere."""
        for keys, reason, value in self._reaching(sound):
            if self._place(keys).source in self.files:
                command = make_option("ARGS", [f"{dotted(keys)}={value}"])
                message = f"{reason}: only the command line may ask for that ({command})"
                self.fault(keys, f"{dotted(keys)}: {message}")
        if self.reads_anywhere:
            return
        for keys, reason in self._reading(sound):
            if self._is_outside(keys):
                message = f"{reason}: only the command line may ask for that, or a recipe inside"
                self.fault(keys, f"{dotted(keys)}: {message} this working tree: {COPY_IT}")

    def _reaching(self, sound: dict) -> Iterator[tuple[tuple, str, str]]:
        """Yield the keys of what writes or sends elsewhere, the reason, and the value as the
        command line takes it."""
        folder = sound.get("output_dir", f"outputs/{self.path.stem}")
        if Path("outputs").resolve() not in Path(folder).resolve().parents:
            yield ("output_dir",), f"{folder} writes outside outputs/", folder
        host = sound.get("grpo", {}).get("vllm_server_host")
        if host is not None and host not in LOCAL_HOSTS:
            reason = f"{host} sends the run to another machine, or opens a server to it"
            yield ("grpo", "vllm_server_host"), reason, host

    def _reading(self, sound: dict) -> Iterator[tuple[tuple, str]]:
        """Yield the keys of what reads elsewhere, or asks a server, and the reason."""
        for keys, name in self._names_of_files(sound):
            if isinstance(name, str) and "\0" not in name:
                path = Path(os.path.realpath(os.path.expanduser(name)))  # noqa: PTH111
                folder = Path(self._place(keys).source).resolve().parent
                if not any(map(path.is_relative_to, (folder, Path.cwd()))):
                    yield keys, f"{name} lies outside this file's folder and yours"
        if sound.get("grpo", {}).get("vllm_mode") == "server":
            yield ("grpo", "vllm_mode"), "the problems go to a server"

    def _names_of_files(self, sound: dict) -> Iterator[tuple[tuple, Any]]:
        """Yield what may name a file or folder, with its keys."""
        yield ("data", "dir"), sound.get("data", {}).get("dir")
        yield ("model", "name_or_path"), sound.get("model", {}).get("name_or_path")
        yield ("teacher",), sound.get("teacher")
        for name in filter(is_reward_model, sound.get("rewards", {})):
            yield ("rewards", name), name
        options = sound.get("data", {}).get("rejection_sampling")
        if isinstance(options, dict):
            yield ("data", "rejection_sampling", "model"), options.get("model")
        yield from _data_sets(sound)

    def _key_refusal(self, section: str, key: str, value: Any) -> str | None:
        declared = _fields(section)
        reasons = reserved(section)
        name = f"{section}.{key}"
        if key in reasons:
            hint = f": {reasons[key]}" if reasons[key] else _hint(self.values, name, key)
            return f"{name} is not offered{hint}"
        if key not in declared:
            hint = _hint(self.values, name, key)
            if not hint.startswith(":"):
                allowed = [field for field in declared if field not in reasons]
                hint = nearest(key, allowed) or hint
            return f"unknown key {name}{hint}"
        refusal = configs.refusal(section, key, value, *declared[key])
        if refusal:
            return f"{name}: {refusal}"
        return None

    def _sound(self) -> dict[str, Any]:
        """The values without those that are faulty by themselves, to check whether the remaining
        values go together. A section that is not a mapping becomes an empty one."""
        faulty = set(self.faulty) - NEEDED
        sound = {}
        for section, value in self.values.items():
            if section not in TYPES["recipe"]:
                sound[section] = dict(value) if isinstance(value, dict) else {}
            elif (section,) not in faulty:
                sound[section] = value
        for keys in faulty:
            if len(keys) == 2:
                sound[keys[0]].pop(keys[1], None)
        return sound

    def recipe(self, machine: Machine | None) -> Recipe:
        values = dict(self.values)
        for section, kind in OWN_SECTIONS.items():
            values[section] = kind(**values.get(section, {}))
        values.setdefault("seed", 42)
        values.setdefault("output_dir", f"outputs/{self.path.stem}")
        return Recipe(
            name=self.path.stem,
            asked_for=self._asked_for(),
            places=self.places,
            processes=self.processes,
            machine=machine,
            **values,
        )

    def _asked_for(self) -> dict[str, Any]:
        """The options of `make` that name this recipe and its overrides."""
        options: dict[str, Any] = {}
        path = str(self.path)
        name = self.path.stem
        # make would drop a space at the beginning of a name.
        if self.path.parent != Path("recipes") or name[0].isspace():
            if path == self.path.name or path[0].isspace():
                path = f"./{path}"
            options["RECIPE"] = path
        elif name != "tiny-arithmetic":
            options["RECIPE"] = name
        if self.overrides:
            options["ARGS"] = self.overrides
        return options


def load_recipe(
    path: str | Path,
    overrides: Iterable[str] = (),
    processes: int = 1,
    machine: Machine | None = None,
    reads_anywhere: bool = False,
) -> Recipe:
    """Read, override and check a recipe.

    Args:
        overrides: `section.key=value`, the value read as YAML.
        processes: how many will share each step.
        machine: see `Recipe`.
        reads_anywhere: the file may name data and models outside its folder and the current one.

    Raises:
        RecipeError: all faults, with their places and, for a misspelt name, the nearest valid name.
    """
    draft = Draft(Path(path), processes, reads_anywhere)
    draft.read()
    for override in overrides:
        draft.override(override)
    draft.check()
    if draft.faults:
        raise RecipeError(draft.in_order())
    return draft.recipe(machine)
