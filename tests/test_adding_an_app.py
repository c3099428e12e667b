"""The page docs/adding-an-app.md: what it says works, and its wrong version is found out.

The code of the page is put into a copy of the tree, which PYTHONPATH sets before the installed one,
for launched ranks too.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import support

PAGE = support.ROOT / "docs" / "adding-an-app.md"
CODE = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL))
CHANGES = re.findall(r"```diff\n\+\+\+ (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
KERNEL = "kernels/advect/cpu.py"
CONFIGURATIONS = {
    "serial": "--driver serial",
    "serial, 3 blocks": "--driver serial --pe-grid 3",
    "mpi": "--driver mpi -n 2",
    "charm": "--driver charm -n 2 --odf 2",
}


class Tree(NamedTuple):
    """A copy of the packages."""

    root: Path

    def files(self) -> dict[str, bytes]:
        """The content of every source file."""
        found = itertools.chain(*((self.root / package).rglob("*") for package in support.LAYERS))
        paths = (path for path in found if path.suffix in (".py", ".json"))
        return {str(path.relative_to(self.root)): path.read_bytes() for path in paths}

    def miniapps(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command line of this tree, with input ``given``."""
        command = [sys.executable, "-m", "miniapps.workbench.cli", *arguments]
        # Safe path: else -m would put the current folder before PYTHONPATH.
        environment = {"PYTHONPATH": str(self.root), "PYTHONSAFEPATH": "1"}
        return support.execute(command, 120, environment, given)

    def records(self) -> dict[str, dict[str, Any]]:
        """The record of a run of advect on this tree in every configuration."""
        lines = (f"run advect --preset tiny {words}\n" for words in CONFIGURATIONS.values())
        done = self.miniapps("batch", "-", given="".join(lines))
        records = map(json.loads, done.stdout.splitlines())
        return dict(zip(CONFIGURATIONS, records, strict=True))

    def change(self, file: str, diff: str) -> None:
        """Apply one of the page's changes, which must fit in exactly one place."""
        lines = [(line[:1], line[1:]) for line in diff.splitlines(keepends=True)]
        before = "".join(text for sign, text in lines if sign in " -")
        after = "".join(text for sign, text in lines if sign in " +")
        source = (self.root / file).read_text()
        assert source.count(before) == 1, f"{file}: not found once:\n{before}"
        (self.root / file).write_text(source.replace(before, after))


def tree_in(folder: Path) -> Tree:
    """The packages with the page's app among them."""
    for package in support.LAYERS:
        shutil.copytree(support.ROOT / package, folder / package, symlinks=True)
    (folder / "miniapps" / "advect").mkdir()
    for file, code in CODE.items():
        if file != KERNEL:
            (folder / file).write_text(code)
    return Tree(folder)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """One that a test may change."""
    return tree_in(tmp_path)


class Made(NamedTuple):
    """A tree that is used as it is, and its records."""

    tree: Tree
    records: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The app as the page has it, and its runs."""
    tree = tree_in(tmp_path_factory.mktemp("tree"))
    return Made(tree, tree.records())


def test_page_holds_an_app_and_changes() -> None:
    """Catches code that lost the line that names its file, and would no longer be tested."""
    modules = "problem", "block", "__init__", "test_advect"
    names = {f"miniapps/advect/{name}.py" for name in modules}
    assert set(CODE) == names | {KERNEL}
    assert len(CHANGES) == PAGE.read_text().count("```diff") == 4


@pytest.mark.slow
def test_listed_and_its_options_offered(installed: Made) -> None:
    """Catches an app that has to be registered somewhere to be found."""
    miniapps = installed.tree.miniapps
    assert "advect       Advect: a profile carried around a ring" in miniapps("list").stdout
    shown = miniapps("run", "advect", "--help").stdout
    assert "--courant" in shown and "cells travelled per step" in shown
    refused = miniapps("run", "advect", "--courant", "1.5")
    assert refused.returncode == 2
    assert refused.stderr == "miniapps: --courant 1.5: must be from 0 to 1\n"


@pytest.mark.slow
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_same_bits_under_every_driver(installed: Made, configuration: str) -> None:
    """Catches a driver that knows the apps there were, and a run that imports another tree."""
    record = installed.records[configuration]
    assert record["app"] == "advect" and record["valid"] is True
    assert record["state_hash"] == installed.records["serial"]["state_hash"]
    assert "differs from reference" in {check["name"] for check in record["checks"]}
    assert record["pes"] == (2 if "-n" in CONFIGURATIONS[configuration] else 1)


def test_nothing_else_changed(installed: Made) -> None:
    """Catches a page that quietly asks for a change of a driver, the command line or a list."""
    original, now = Tree(support.ROOT).files(), installed.tree.files()
    assert set(now) - set(original) == set(CODE) - {KERNEL}
    assert [file for file in original if now.get(file) != original[file]] == []


@pytest.mark.slow
def test_halo_of_the_wrong_side_is_found(tree: Tree, installed: Made) -> None:
    """Catches checks that cannot fail: the page's wrong version must end with status 1."""
    tree.change(*CHANGES[0])
    for configuration, record in tree.records().items():
        failed = {check["name"] for check in record["checks"] if not check["ok"]}
        assert failed == {"mode error", "differs from reference"}, configuration
        assert record["state_hash"] != installed.records["serial"]["state_hash"]
        assert record["state_hash"] in PAGE.read_text()
        quoted = re.findall(r"^  (?:ok   |WRONG) (.+): ", PAGE.read_text(), flags=re.M)
        assert quoted == [check["name"] for check in record["checks"]], configuration
        assert "step_time_s" not in record
    for configuration in ("serial", "mpi"):
        words = CONFIGURATIONS[configuration].split()
        assert tree.miniapps("run", "advect", "--preset", "tiny", *words).returncode == 1


@pytest.mark.slow
def test_compiled_kernel_gives_the_same_bits(tree: Tree, installed: Made) -> None:
    """Catches a kernel whose additions are contracted or done in another order."""
    (tree.root / KERNEL).parent.mkdir()
    (tree.root / KERNEL).write_text(CODE[KERNEL])
    for change in CHANGES[1:]:
        tree.change(*change)
    found = {record["state_hash"] for record in tree.records().values()}
    assert found == {installed.records["serial"]["state_hash"]}
