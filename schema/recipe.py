"""Reading a recipe: one strict YAML file. All faults are found before any weight is loaded, and
reported together."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

from console.faults import (
    Fault,
    Place,
    RecipeError,
    closest,
    item,
    nearest,
    nearest_or_all,
    place_of,
)
from console.terminal import make_option
from data.imports import is_trusted
from schema import configs, meaning, values
from schema.names import describe
from schema.refused_keys import AT_THE_TOP, GONE, reserved
from schema.sections import OWN_SECTIONS, Recipe
from schema.stages import STAGES
from schema.text import REQUIRED, Unreadable, read_with_bases, value_of
from schema.values import LOCAL_HOSTS, RULES, remote_trackers

# Names and lists that only schema/meaning.py can judge.
CHECKED_BY_MEANING = {
    ("model", "build"): str | None,
    ("data", "train"): list,
    ("evaluate", "benchmarks"): list,
}
KEYS = ("seed", "output_dir", "algorithm", "tools", *OWN_SECTIONS, "rewards", *configs.SECTIONS)

SPACES = (
    """one with spaces needs quotes of its own: ARGS="'data.train=[arithmetic: {digits: 2}]'\""""
)


def _fields(section: str) -> dict[str, configs.Field]:
    """The keys that a section may have: its library's, or ours."""
    if section in configs.SECTIONS:
        return configs.fields(section)
    declared = {}
    for own in fields(OWN_SECTIONS[section]):
        declared[own.name] = configs.Field("bool" if own.type is bool else "", own.default)
    return declared


def _elsewhere(key: str, there: dict) -> str:
    """Which section has a key that stands at the top, those of the recipe before others, or why
    none has; empty where nothing is known of it."""
    if said := (AT_THE_TOP | GONE).get(key):
        return f": {said}"
    inside = [each for each in (*OWN_SECTIONS, *configs.SECTIONS) if key in _fields(each)]
    free = [each for each in inside if key not in reserved(each)]
    if free:
        fitting = [each for each in free if each in there] or free
        return f"; it is a key of a section: {', '.join(f'{each}.{key}' for each in fitting)}"
    return f": {reserved(inside[0])[key]}" if inside else ""


class Draft:
    """A recipe on its way from text to `Recipe`: its values, the place of each key, and the faults
    found so far."""

    def __init__(self, path: Path):
        self.path = path
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
        """The faults, each once: overrides' first, then the file's by their lines, then its
        bases'."""
        of = {file: number for number, file in enumerate(self.files)}
        return sorted(
            dict.fromkeys(self.faults),
            key=lambda fault: (of.get(fault.place.source, -1), fault.place.line),
        )

    # Reading --------------------------------------------------------------------------------------

    def read(self):
        try:
            self.values, self.places, faults, self.files = read_with_bases(self.path)
        except FileNotFoundError:
            others, stem = sorted(p.stem for p in Path("recipes").glob("*.yaml")), self.path.stem
            if self.path == Path("recipes/.yaml"):  # as make completes an empty name
                named = "name one (`make recipes` lists them), or leave it out for tiny-arithmetic"
                raise RecipeError([f"RECIPE is empty: {named}"]) from None
            named = stem.removesuffix(".yaml")
            meant = (
                f"; RECIPE is a name in recipes/, as RECIPE={named}, or a path, as"
                f" RECIPE=./{named}.yaml"
            )
            message = f"no such recipe{meant if named != stem else nearest_or_all(stem, others)}"
            raise RecipeError([Fault(Place(str(self.path)), message)]) from None
        self.faults += faults

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
        below = [each for each in self.places if each[: len(keys)] == keys]
        for each in below:  # the override replaces what the file has there
            del self.places[each]
        self.places[keys] = place

    # Checking -------------------------------------------------------------------------------------

    def check(self):
        # With those that have no value: a misspelt one would not remove the base's.
        for key in self.values:
            if key == "base":
                self.fault((key,), "base: only a recipe's file names what it builds on")
            elif key not in KEYS:
                hint = _elsewhere(key, self.values) or nearest(key, (*KEYS, "base"))
                self.fault((key,), f"unknown section {key!r}{hint}")
        self.values = {key: value for key, value in self.values.items() if value is not None}
        meant = {match for key in self.values if key not in KEYS for match in closest(key, KEYS)}
        for key in REQUIRED:
            if key not in self.values and key not in meant:
                self.fault((), f"the section `{key}` is missing")
        for key, rule in RULES["recipe"].items():
            if key in self.values and (wrong := rule.refusal(self.values[key])):
                self.fault((key,), f"{key}: {wrong}")
        for section in [key for key in self.values if key in KEYS and key not in RULES["recipe"]]:
            if not isinstance(self.values[section], dict):
                first = fields(OWN_SECTIONS[section])[0].name if section in OWN_SECTIONS else None
                write = f": write {section}: {{{first}: …}}" if first else ""
                message = f"expected a mapping, got {self.values[section]!r}{write}"
                self.fault((section,), f"{section}: {message}")
            elif section != "rewards":
                self._check_fields(section)
        sound = self._sound()
        for section, complaints in meaning.CHECKS.items():
            if isinstance(self.values.get(section), dict):
                for keys, message in complaints(sound[section], sound):
                    # such as `algorithm`
                    above = section == "grpo" and keys and keys[0] in RULES["recipe"]
                    self.fault(keys if above else (section, *keys), message)
        self._check_reach(sound)

    def _check_reach(self, sound: dict):
        """Only the command line may ask to write outside `outputs/` or to reach another machine: a
        recipe and its bases may come from a stranger. A tracker may also be named in a file that
        the user has trusted.
        """
        folder = sound.get("output_dir", f"outputs/{self.path.stem}")
        host = sound.get("grpo", {}).get("vllm_server_host")
        reaching = {}
        if Path("outputs").resolve() not in Path(folder).resolve().parents:
            reaching["output_dir",] = folder, "writes outside outputs/"
        if host is not None and host not in LOCAL_HOSTS:
            what = "sends the run to another machine, or opens a server to it"
            reaching["grpo", "vllm_server_host"] = host, what
        for section in STAGES:
            trackers = sound.get(section, {}).get("report_to")
            if remote_trackers(trackers):
                # As the command line takes a list: [a,b], without the quotes and spaces of
                # Python's.
                trackers = f"[{','.join(trackers)}]" if isinstance(trackers, list) else trackers
                reaching[section, "report_to"] = trackers, "sends the run to another machine"
        for keys, (value, what) in reaching.items():
            file, tracker = self._place(keys).source, keys[-1] == "report_to"
            if file in self.files and not (tracker and is_trusted(Path(file))):
                name = ".".join(keys)
                asked = make_option("ARGS", [f"{name}={value}"])
                message = f"{value} {what}: only the command line may ask for that ({asked})"
                message += (
                    f"; or, if you wrote this file: make trust {make_option('FILE', [file])}"
                    if tracker
                    else ""
                )
                self.fault(keys, f"{name}: {message}")

    def _check_fields(self, section: str):
        """Check the names and values of a section's keys."""
        known, reasons = _fields(section), reserved(section)
        allowed = [name for name in known if name not in reasons]
        for key, value in self.values[section].items():
            name = f"{section}.{key}"
            if key in reasons:
                self.fault((section, key), f"{name} is not set here: {reasons[key]}")
            elif key not in known and key in GONE:
                self.fault((section, key), f"{name} does not exist: {GONE[key]}")
            elif key not in known:
                answer = nearest(key, allowed) or _elsewhere(key, self.values)
                self.fault((section, key), f"unknown key {name}{answer}")
            elif kind := CHECKED_BY_MEANING.get((section, key)):
                if not isinstance(value, kind):
                    message = f"expected {describe(kind)}, got {value!r:.80}"
                    self.fault((section, key), f"{name}: {message}")
            elif wrong := values.refusal(section, key, value, *known[key]):
                self.fault((section, key), f"{name}: {wrong}")

    def _sound(self) -> dict[str, Any]:
        """The values without those that are faulty by themselves, to ask whether the others go
        together. A section that is not a mapping becomes an empty one."""
        faulty = set(self.faulty) - CHECKED_BY_MEANING.keys()
        sound = {}
        for section, value in self.values.items():
            if section not in RULES["recipe"]:
                keys = value.items() if isinstance(value, dict) else ()
                sound[section] = {key: each for key, each in keys if (section, key) not in faulty}
            elif (section,) not in faulty:
                sound[section] = value
        return sound

    def what_is_sound(self) -> Recipe | None:
        """The recipe without its faulty keys."""
        for keys in filter(None, self.faulty):
            section = self.values
            # half of a reward pays for something else
            keys = keys[:2] if keys[0] == "rewards" else keys
            for key in keys[:-1]:
                section = section.get(key) if isinstance(section, dict) else None
            if isinstance(section, dict):
                section.pop(keys[-1], None)
            elif isinstance(section, list):  # of data sets
                section[:] = [each for each in section if item(each) != keys[-1]]
        try:
            return self.recipe()
        except TypeError:  # a required section is missing
            return None

    def recipe(self) -> Recipe:
        values = dict(self.values)
        for section, kind in OWN_SECTIONS.items():
            values[section] = kind(**values.get(section, {}))
        values.setdefault("seed", 42)
        values.setdefault("output_dir", f"outputs/{self.path.stem}")
        return Recipe(
            name=self.path.stem, asked_for=self._asked_for(), places=self.places, **values
        )

    def _asked_for(self) -> dict[str, Any]:
        """The options of `make` that ask for this recipe and its overrides."""
        path, name = str(self.path), self.path.stem
        if self.path.parent == Path("recipes") and not name[0].isspace():  # which make would drop
            asked = {} if name == "tiny-arithmetic" else {"RECIPE": name}
        else:
            asked = {"RECIPE": f"./{path}" if path == self.path.name or path[0].isspace() else path}
        return asked | ({"ARGS": self.overrides} if self.overrides else {})


def load_recipe(
    path: str | Path, overrides: list[str] = (), check: tuple[str, ...] = tuple(STAGES)
) -> Recipe:
    """Read, override and check a recipe, as `read_recipe` does.

    Raises:
        RecipeError: all faults, each with its place and, for a misspelt name, the nearest valid
            one.
    """
    recipe, faults = read_recipe(path, overrides, check)
    if faults:
        raise RecipeError(faults)
    return recipe


def read_recipe(
    path: str | Path, overrides: list[str] = (), check: tuple[str, ...] = tuple(STAGES)
) -> tuple[Recipe | None, list[Fault]]:
    """The recipe without its faulty keys, or None if the rest makes no recipe; and its faults, in
    the order of the file.

    Args:
        overrides: `section.key=value`, the value read as YAML.
        check: sections whose library config is also built, to find values that the library refuses.
            Under a launcher a stage names only its own section: a DeepSpeed plugin keeps what the
            first config of the process told it.

    Raises:
        RecipeError: the file is not there, or is not YAML.
    """
    draft = Draft(Path(path))
    draft.read()
    for override in overrides:
        draft.override(override)
    draft.check()
    if draft.faults:
        return draft.what_is_sound(), draft.in_order()
    recipe = draft.recipe()
    return recipe, refused_values(recipe, check)


def refused_values(recipe: Recipe, sections: tuple[str, ...]) -> list[Fault]:
    """What the libraries' own configs say against these sections of a recipe without faults, each
    in the place of the first key that the complaint names."""
    faults = []
    for section in sections:
        values = getattr(recipe, section)
        if values is not None and (complaint := configs.complaint(recipe, section)):
            named = [
                key
                for key, value in values.items()
                if key in complaint or str(value) in complaint.split()
            ]
            faults.append(Fault(recipe.place(section, *named[:1]), f"{section}: {complaint}"))
    return faults


def require_values(recipe: Recipe, section: str):
    """Refuse to begin a stage with values that its library refuses, or that the next stage's will
    refuse, where this is the only process. The stage's own config is built last, since building one
    leaves its mark on the process.

    Raises:
        RecipeError: names them.
    """
    alone = "WORLD_SIZE" not in os.environ  # see load_recipe
    others = tuple(each for each in STAGES if each != section) if alone else ()
    if faults := refused_values(recipe, ("adapter", "quantization", *others, section)):
        raise RecipeError(faults)
