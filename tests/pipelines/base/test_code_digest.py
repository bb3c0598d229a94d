"""The digest of source code: it follows every file of the modules that it names, and none may be missing."""

import sys

import pytest

from pipelines.base.code_digest import code_digest
from pipelines.gguf.converted_files import CONVERTS
from pipelines.host.models.prefix_files import COMPUTES
from pipelines.inference.backends.openvino.prepared.prepared_decoder import MAKES_GRAPHS
from pipelines.repository.exports.template_parsers import SEARCHES

FILES = ("package/__init__.py", "package/part.py", "package/inner/__init__.py", "package/inner/kernel.cu")


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for file in FILES:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(f"# {file}\n")
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "package"]:
        del sys.modules[name]


def digest(*modules):
    return code_digest.__wrapped__(*modules)


@pytest.mark.parametrize("file", FILES)
def test_each_file_of_a_package_counts(package, file):
    before = digest("package")
    (package / file).write_text("# changed\n")
    assert digest("package") != before


def test_of_a_module_its_file_counts_alone(package):
    before = digest("package.part")
    (package / "package" / "inner" / "kernel.cu").write_text("// changed\n")
    (package / "package" / "notes.txt").write_text("no code\n")
    assert digest("package.part") == before
    (package / "package" / "part.py").write_text("# changed\n")
    assert digest("package.part") != before


def test_a_file_that_is_renamed_counts(package):
    before = digest("package")
    (package / "package" / "part.py").rename(package / "package" / "piece.py")
    assert digest("package") != before


def test_a_module_that_is_not_there_is_an_error(package):
    (package / "left" / "__pycache__").mkdir(parents=True)  # what a folder that has moved leaves behind
    for module in ("package.none", "nowhere", "nowhere.part", "left"):
        with pytest.raises(ModuleNotFoundError, match=module.partition(".")[0]):
            digest("package", module)


@pytest.mark.parametrize("modules", [CONVERTS, MAKES_GRAPHS, COMPUTES, SEARCHES])
def test_the_modules_of_every_cache_are_there_and_each_counts(modules):
    whole = digest(*modules)
    assert all(digest(*(each for each in modules if each != left)) != whole for left in modules)
