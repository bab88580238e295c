"""The recipe: one YAML file, strict. Every fault is found before a weight is loaded, and all are reported together."""

import os
import shlex
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from schema import configs, declared, values
from schema.faults import RecipeError, nearest
from schema.refused_keys import GONE, RESERVED
from schema.strict_yaml import Unreadable, read, text_of, value_of
from schema.values import LOCAL_HOSTS, REMOTE_TRACKERS, RULES


@dataclass(frozen=True)
class Model:
    """Which weights. `name_or_path` is a Hub id or a folder; `build` instead names a function of
    `schema/local_models.py` that makes a model folder with no download."""

    name_or_path: str | None = None
    build: str | None = None
    revision: str | None = None
    dtype: str = "float32"
    attn_implementation: str | None = None
    chat_template: str | None = None


@dataclass(frozen=True)
class Data:
    """`train`: names of data sets, or one-entry mappings of a name to its arguments. `validation`: how many problems
    are held out from them. `worked`: how many worked solutions the warm start may see, where not all. `dir`: a folder
    of parquet files instead of the Hub."""

    train: list
    validation: int = 500
    worked: int | None = None
    dir: str | None = None


@dataclass(frozen=True)
class Prompt:
    system: str | None = None


@dataclass(frozen=True)
class Evaluate:
    """`benchmarks`: names of data sets, one-entry mappings of a name to its arguments, or files of the user's own.
    `limit`: judge only the first problems of each. `engine`: `transformers` or `vllm`. `samples`: answers a problem, at
    `temperature`; greedy where that is 0. `control`: judge the base model also with a worked example in its prompt.
    While `grpo.eval_steps` is set: `held_out` problems are judged then, and training stops when accuracy has been below
    its best for `patience` evaluations while reward rises (0: never).
    """

    benchmarks: list = field(default_factory=list)
    limit: int | None = None
    engine: str = "transformers"
    batch_size: int = 32
    max_new_tokens: int | None = None
    samples: int = 1
    temperature: float = 0.0
    control: bool = True
    held_out: int = 96  # goes into full batches on 1 to 4, 6, 8, 12 and 16 processes
    patience: int = 3


@dataclass(frozen=True)
class Recipe:
    name: str
    seed: int
    output_dir: str
    model: Model
    data: Data
    prompt: Prompt
    rewards: dict[str, dict]
    grpo: dict
    evaluate: Evaluate
    adapter: dict | None = None
    quantization: dict | None = None
    sft: dict | None = None
    asked_for: str = ""
    places: dict[tuple, str] = field(default_factory=dict)

    def place(self, *keys: str) -> str:
        """File and line of a key, or of the nearest section above it that stands in the recipe."""
        while keys and keys not in self.places:
            keys = keys[:-1]
        return self.places.get(keys, f"recipe {self.name}")

    def resolved(self) -> dict:
        """The recipe again, every default of ours written out: plain dictionaries, ready for YAML; sections that are
        absent are left out."""
        values = {key: value for key, value in asdict(self).items() if key not in ("name", "asked_for", "places")}
        return {key: value for key, value in values.items() if value is not None}

    @property
    def strict(self) -> bool:
        """Whether only an answer in a closed `<answer>` block is right."""
        return self.rewards.get("correct_answer", {}).get("strict", False)

    def stage_dir(self, stage: str) -> Path:
        return Path(self.output_dir) / stage


OWN_SECTIONS = {"model": Model, "data": Data, "prompt": Prompt, "evaluate": Evaluate}
REQUIRED = ("model", "data", "rewards", "grpo")
# Names and lists whose faults schema/meaning.py tells.
CHECKED_BY_MEANING = {("model", "build"), ("data", "train"), ("evaluate", "benchmarks")}
KEYS = ("seed", "output_dir", *OWN_SECTIONS, "rewards", *configs.SECTIONS)


def load_recipe(path: str | Path, overrides: list[str] = (), check: tuple[str, ...] = ("sft", "grpo")) -> Recipe:
    """Read, override and check a recipe.

    Args:
        overrides: `section.key=value`, the value read as YAML.
        check: sections whose library config is also built, which finds bad values. A stage that runs under a launcher
            names only its own: a DeepSpeed plugin keeps what the first config of a process told it.

    Raises:
        RecipeError: one line per fault, each with its place and, for a misspelt name, the nearest valid one.
    """
    recipe, faults = read_recipe(path, overrides, check)
    if faults:
        raise RecipeError(faults)
    return recipe


def read_recipe(
    path: str | Path, overrides: list[str] = (), check: tuple[str, ...] = ("sft", "grpo")
) -> tuple[Recipe | None, list[str]]:
    """The recipe without its faulty keys, None where nothing can be made of the rest; and its faults, a line each.

    Raises:
        RecipeError: there is no such file, or it is not YAML.
    """
    draft = _Draft(Path(path))
    draft.read()
    for override in overrides:
        draft.override(override)
    draft.check()
    if draft.faults:
        return draft.what_is_sound(), draft.in_order()
    recipe = draft.recipe()
    return recipe, refused_values(recipe, check)


def refused_values(recipe: Recipe, sections: tuple[str, ...]) -> list[str]:
    """What the libraries' own configs say against sections of a sound recipe, a line each, on the line of the first key
    that the complaint names."""
    faults = []
    for section in sections:
        values = getattr(recipe, section)
        if values is not None and (complaint := configs.complaint(recipe, section)):
            named = [key for key, value in values.items() if key in complaint or str(value) in complaint.split()]
            faults.append(f"{recipe.place(section, *named[:1])}: {section}: {complaint}")
    return faults


def require_values(recipe: Recipe, section: str):
    """Refuse to begin a stage with values that its library refuses, or, where one process can ask that too, the stage
    after it. Last of all its own config is built: it leaves its mark on the process.

    Raises:
        RecipeError: names them.
    """
    alone = "WORLD_SIZE" not in os.environ  # a DeepSpeed plugin keeps what the first config of a process told it
    others = tuple(each for each in ("sft", "grpo") if each != section) if alone else ()
    if faults := refused_values(recipe, ("adapter", "quantization", *others, section)):
        raise RecipeError(faults)


class _Draft:
    """A recipe on its way from text to `Recipe`: its values, the place each key came from, and the faults so far."""

    def __init__(self, path: Path):
        self.path = path
        self.values: dict[str, Any] = {}
        self.places: dict[tuple, str] = {}
        self.faults: list[tuple[str, str]] = []
        self.faulty: list[tuple] = []
        self.overrides: list[str] = []

    def fault(self, keys: tuple, message: str):
        self.faulty.append(keys)
        while keys and keys not in self.places:
            keys = keys[:-1]
        self.faults.append((self.places.get(keys, str(self.path)), message))

    def in_order(self) -> list[str]:
        line = lambda fault: int(fault[0].rpartition(":")[2]) if fault[0].rpartition(":")[2].isdigit() else 0  # noqa: E731
        return [f"{place}: {message}" for place, message in sorted(dict.fromkeys(self.faults), key=line)]

    # Reading -----------------------------------------------------------------------------------------------------

    def read(self):
        try:
            text = text_of(self.path)
            self.values, lines = read(text)
        except FileNotFoundError:
            others = sorted(p.stem for p in Path("recipes").glob("*.yaml"))
            hint = nearest(self.path.stem, others) or f"; there are: {', '.join(others)}"
            raise RecipeError([f"{self.path}: no such recipe{hint}"]) from None
        except Unreadable as error:
            place = f"{self.path}:{error.line}" if error.line else f"{self.path}"
            raise RecipeError([f"{place}: {error}"]) from None
        if not isinstance(self.values, dict):
            raise RecipeError([f"{self.path}: a recipe is a mapping with the sections {', '.join(REQUIRED)}"])
        for keys, line in lines:
            place = f"{self.path}:{line}"
            if keys in self.places:
                first = self.places[keys].rpartition(":")[2]
                self.faults.append((place, f"{'.'.join(keys)} stands here again (first in line {first}): keep one"))
            self.places.setdefault(keys, place)

    def override(self, text: str):
        self.overrides.append(text)
        name, equals, value = text.partition("=")
        name = name.strip()
        keys = tuple(name.split("."))
        # A reward's name may itself hold dots; what follows it is an argument, unless the value is its whole mapping.
        if keys[0] == "rewards" and len(keys) > 2:
            whole = value.lstrip().startswith("{")
            keys = ("rewards", ".".join(keys[1:])) if whole else ("rewards", ".".join(keys[1:-1]), keys[-1])
        place = f"override {text}"
        if not equals or not all(keys):
            self.faults.append((place, "an override is section.key=value"))
            return
        section = self.values
        for depth, key in enumerate(keys[:-1], 1):
            if section.get(key) is None:
                section[key] = {}
                self.places.setdefault(keys[:depth], place)
            section = section[key]
            if not isinstance(section, dict):
                self.faults.append((place, f"{'.'.join(keys[:depth])} has no keys below it"))
                return
        try:
            section[keys[-1]] = value_of(value)
        except Unreadable as error:
            self.faults.append((place, str(error)))
        below = [each for each in self.places if each[: len(keys)] == keys]
        for each in below:  # what stood there in the file is gone
            del self.places[each]
        self.places[keys] = place

    # Checking ----------------------------------------------------------------------------------------------------

    def check(self):
        self.values = {key: value for key, value in self.values.items() if value is not None}
        for key in self.values:
            if key not in KEYS:
                self.fault((key,), f"unknown section {key!r}{nearest(key, KEYS)}")
        misspelt = [nearest(key, KEYS) for key in self.values if key not in KEYS]
        for key in REQUIRED:
            if key not in self.values and nearest(key, [key]) not in misspelt:
                self.fault((), f"the section `{key}` is missing")
        for key in ("seed", "output_dir"):
            if key in self.values and (wrong := RULES["recipe"][key].fault(self.values[key])):
                self.fault((key,), f"{key}: {wrong}")
        for section in [key for key in self.values if key in KEYS and key not in ("seed", "output_dir")]:
            if not isinstance(self.values[section], dict):
                self.fault((section,), f"{section}: expected a mapping, got {self.values[section]!r}")
            elif section in OWN_SECTIONS:
                hints = get_type_hints(OWN_SECTIONS[section])
                known = {
                    each.name: declared.Field(hints[each.name], each.default) for each in fields(OWN_SECTIONS[section])
                }
                self._check_fields(section, known)
            elif section in configs.SECTIONS:
                self._check_fields(section, declared.fields(section))
        sound = {key: self._sound(key) for key in self.values}
        for section in [key for key in sound if key in KEYS]:
            self._check_meaning(section, sound)
        self._check_reach()

    def _check_reach(self):
        """What writes elsewhere than `outputs/`, or leaves the machine, is asked for on the command line, by the person
        who sits there: a recipe may be a stranger's."""
        folder = self.values.get("output_dir", f"outputs/{self.path.stem}")
        own = Path("outputs").resolve()
        grpo = self.values.get("grpo") if isinstance(self.values.get("grpo"), dict) else {}
        asked = {
            ("output_dir",): isinstance(folder, str) and own not in Path(folder).resolve().parents,
            ("grpo", "vllm_server_host"): grpo.get("vllm_server_host", "127.0.0.1") not in LOCAL_HOSTS,
        }
        for section in ("sft", "grpo"):
            given = self.values.get(section)
            trackers = given.get("report_to") if isinstance(given, dict) else None
            trackers = trackers if isinstance(trackers, list) else [trackers]
            asked[section, "report_to"] = any(each in REMOTE_TRACKERS for each in trackers)
        for keys, reaches in asked.items():
            if reaches and not self._by_hand(keys):
                name = ".".join(keys)
                value = folder if keys == ("output_dir",) else self.values[keys[0]][keys[1]]
                what = "writes outside outputs/" if keys == ("output_dir",) else "sends the run to another place"
                self.fault(keys, f'{name}: {value} {what}, which a file may not ask for: ARGS="{name}={value}" may')

    def _by_hand(self, keys: tuple) -> bool:
        place = next((self.places[keys[:n]] for n in range(len(keys), 0, -1) if keys[:n] in self.places), "")
        return place.startswith("override ")

    def _check_fields(self, section: str, known: dict[str, declared.Field]):
        """Names and values of a section's keys."""
        reserved = RESERVED.get(section, {})
        allowed = [name for name in known if name not in reserved]
        for key, value in self.values[section].items():
            name = f"{section}.{key}"
            if key in reserved:
                self.fault((section, key), f"{name} is not set here: {reserved[key]}")
            elif key not in known and key in GONE:
                self.fault((section, key), f"{name} does not exist: {GONE[key]}")
            elif key not in known:
                self.fault((section, key), f"unknown key {name}{nearest(key, allowed)}")
            elif (section, key) in CHECKED_BY_MEANING:
                if not configs.matches(value, known[key].type):
                    expected = configs.describe(known[key].type)
                    self.fault((section, key), f"{name}: expected {expected}, got {value!r:.80}")
            elif wrong := values.fault(section, key, value, *known[key]):
                self.fault((section, key), f"{name}: {wrong}")

    def _sound(self, section: str) -> Any:
        """A section without the keys that are faulty already: what they mean together can be asked of the others."""
        value = self.values[section]
        return (
            {
                key: each
                for key, each in value.items()
                if (section, key) not in self.faulty or (section, key) in CHECKED_BY_MEANING
            }
            if isinstance(value, dict)
            else value
        )

    def _check_meaning(self, section: str, sound: dict):
        """What the rules of single keys cannot say."""
        from schema import meaning

        check = meaning.CHECKS.get(section)
        if check and isinstance(sound[section], dict):
            for keys, message in check(sound[section], sound):
                self.fault((section, *keys), message)

    def what_is_sound(self) -> Recipe | None:
        """The recipe without its faulty keys."""
        for keys in filter(None, self.faulty):
            section = self.values
            for key in keys[:-1]:
                section = section.get(key) if isinstance(section, dict) else None
            if isinstance(section, dict):
                section.pop(keys[-1], None)
            elif isinstance(section, list):  # of data sets
                section[:] = [
                    each for each in section if keys[-1] != (each if isinstance(each, str) else next(iter(each), 0))
                ]
        try:
            return self.recipe()
        except TypeError:  # a section that must be there is not
            return None

    def recipe(self) -> Recipe:
        values = dict(self.values)
        for section, kind in OWN_SECTIONS.items():
            defaults = {f.name: f.default for f in fields(kind) if f.default is not MISSING}
            values[section] = kind(**defaults | values.get(section, {}))
        values.setdefault("seed", 42)
        values.setdefault("output_dir", f"outputs/{self.path.stem}")
        return Recipe(name=self.path.stem, asked_for=self._asked_for(), places=self.places, **values)

    def _asked_for(self) -> str:
        """The options of `make` that name this recipe and its overrides."""
        shipped = self.path.parent == Path("recipes")
        named = self.path.stem if shipped else f"./{self.path}" if self.path == Path(self.path.name) else self.path
        recipe = "" if self.path == Path("recipes/tiny-arithmetic.yaml") else shlex.quote(str(named))
        arguments = " ".join(f'"{each}"' if " " in each else each for each in self.overrides)
        return (f" RECIPE={recipe}" if recipe else "") + (f" ARGS={shlex.quote(arguments)}" if arguments else "")
