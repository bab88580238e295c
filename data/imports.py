"""Which code a recipe may name. A recipe is often another's, and a dotted path in it runs what it names."""

import importlib
import os
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

TRUSTED = ("trl",)


def import_trusted(module: str) -> ModuleType:
    """A module of this repository or of the reader's own folders; of an installed package only where trl is meant, or
    the environment's TRUST_PACKAGES names it.

    Raises:
        ImportError: it is another package's, or not there.
    """
    package = module.partition(".")[0]
    found = find_spec(package)
    named = os.environ.get("TRUST_PACKAGES", "").replace(",", " ").split()
    if found is not None and package not in (*TRUSTED, *named) and _is_installed(found):
        raise ImportError(
            f"{package} is an installed package, of which a recipe runs nothing by itself; TRUST_PACKAGES={package} "
            "before the command allows it"
        )
    return importlib.import_module(module)


def _is_installed(spec) -> bool:
    """Whether it comes with Python or from its site-packages."""
    if spec.origin in ("built-in", "frozen"):
        return True
    place = Path(spec.origin or next(iter(spec.submodule_search_locations))).resolve()
    folders = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(folder in place.parents for folder in folders)
