"""Builds the package `grpo_verifier` from the files that the recipes use, which are not moved or copied for it.

Each gets its place in the one folder of the package, and its imports name it there.
"""

import atexit
import os
import re
import shutil
import tempfile
from pathlib import Path

from setuptools import setup

HOUSE = Path(__file__).resolve().parents[2]
FILES = [*(HOUSE / "rewards/verifier").glob("*.py"), HOUSE / "data/gold.py"]
FILES += [HOUSE / "rewards" / each for each in ("completion.py", "correct_answer.py", "package/hosts.py")]
OURS = re.compile(r"\b(?:rewards\.verifier|rewards|data)(?=(?:\.\w+)? import\b)")

# Outside the checkout: what an earlier build left in a folder of setuptools would go into the next wheel.
made = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, made)
package = made / "grpo_verifier"
package.mkdir()
for file in FILES:
    text = OURS.sub("grpo_verifier", file.read_text(encoding="utf-8"))
    (package / file.name).write_text(text.replace("-m rewards.verifier", "-m grpo_verifier"), encoding="utf-8")
(package / "py.typed").touch()

setup(
    packages=["grpo_verifier"],
    package_dir={"": os.path.relpath(made)},
    package_data={"grpo_verifier": ["py.typed"]},
    options={"build": {"build_base": str(made / "build")}, "egg_info": {"egg_base": str(made)}},
)
