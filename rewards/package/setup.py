"""Build the package `grpo_verifier` from the files that the recipes use.

The files are written to the folder of the package, with the imports that hold there.
"""

import atexit
import os
import re
import shutil
import tempfile
from pathlib import Path

from setuptools import setup
from setuptools.command.sdist import sdist

HOUSE = Path(__file__).resolve().parents[2]
FILES = [*(HOUSE / "rewards/verifier").glob("*.py")]
FILES += [HOUSE / "rewards/completion.py", HOUSE / "rewards/correct_answer.py"]
FILES += [HOUSE / "rewards/package/hosts.py"]
IMPORT = re.compile(r"\b(?:rewards\.verifier|rewards)(?=(?:\.\w+)? import\b)")

# Outside the checkout: the files of an earlier build would go into the next wheel.
folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)
package = folder / "grpo_verifier"
archived = Path(__file__).with_name("grpo_verifier")
if archived.is_dir():
    shutil.copytree(archived, package)
else:
    package.mkdir()
    for file in FILES:
        text = IMPORT.sub("grpo_verifier", file.read_text(encoding="utf-8"))
        (package / file.name).write_text(
            text.replace("-m rewards.verifier", "-m grpo_verifier"), encoding="utf-8"
        )
    shutil.copytree(HOUSE / "rewards/verifier/tables", package / "tables")
    (package / "py.typed").touch()


class Archive(sdist):
    """A source archive that holds the package as it is installed, and so needs no checkout."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, [file for file in files if not file.startswith("..")])
        shutil.copytree(package, Path(base_dir, "grpo_verifier"))


setup(
    cmdclass={"sdist": Archive},
    packages=["grpo_verifier"],
    package_dir={"": os.path.relpath(folder)},
    package_data={"grpo_verifier": ["py.typed", "tables/*"]},
    options={"build": {"build_base": str(folder / "build")}, "egg_info": {"egg_base": str(folder)}},
)
