"""The libraries' documentation is linked at the version that is pinned."""

import re
import tomllib

from tests.support import ROOT, tracked


def test_the_documentation_of_a_library_is_that_of_its_pinned_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = dict(package.split("==") for package in project["dependencies"])
    links = set()
    for page in ("README.md", *tracked("docs/*.md")):
        text = (ROOT / page).read_text(encoding="utf-8")
        links |= set(re.findall(r"huggingface\.co/docs/(\w+)/v([\d.]+)/", text))
    assert {"trl", "peft", "transformers", "accelerate"} <= {package for package, _ in links}
    for package, version in links:
        major, minor, _ = pinned[package].split(".", 2)
        assert version == f"{major}.{minor}.0", package
