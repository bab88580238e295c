"""Builds the package `grpo_verifier` from the files that the recipes use, which are not moved or
copied for it.

Each gets its place in the one folder of the package, and its imports name it there.
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
FILES = [*(HOUSE / "rewards/verifier").glob("*.py"), HOUSE / "data/gold.py"]
FILES += [
    HOUSE / "rewards" / each for each in ("completion.py", "correct_answer.py", "package/hosts.py")
]
OURS = re.compile(r"\b(?:rewards\.verifier|rewards|data)(?=(?:\.\w+)? import\b)")

# Outside the checkout: what an earlier build left in a folder of setuptools would go into the next
# wheel.
made = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, made)
package = made / "grpo_verifier"
if (archived := Path(__file__).with_name("grpo_verifier")).is_dir():
    shutil.copytree(archived, package)
else:
    package.mkdir()
    for file in FILES:
        text = OURS.sub("grpo_verifier", file.read_text(encoding="utf-8"))
        (package / file.name).write_text(
            text.replace("-m rewards.verifier", "-m grpo_verifier"), encoding="utf-8"
        )
    (package / "py.typed").touch()


class Archive(sdist):
    """A source archive that holds the package as it is installed, and so needs no checkout."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, [each for each in files if not each.startswith("..")])
        shutil.copytree(package, Path(base_dir, "grpo_verifier"))


setup(
    cmdclass={"sdist": Archive},
    packages=["grpo_verifier"],
    package_dir={"": os.path.relpath(made)},
    package_data={"grpo_verifier": ["py.typed"]},
    options={"build": {"build_base": str(made / "build")}, "egg_info": {"egg_base": str(made)}},
)
