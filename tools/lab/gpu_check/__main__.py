"""`python -m tools.lab.gpu_check`: every check and measurement that needs an NVIDIA GPU, in one command.

    python -m tools.lab.gpu_check [--part 1|2] [--only NAME] [--quick] [--json FILE] [--list]
    python -m tools.lab.gpu_check pack --out FOLDER          lowered graphs, where exporting is installed
    python -m tools.lab.gpu_check report FILE                 tables from a JSON file
    python -m tools.lab.gpu_check trim-onnxruntime --arch sm_90 --out FOLDER WHEEL

Runs with torch, cupy, numpy, transformers and onnxruntime-gpu alone, given a pack.  Exit status: 0 all is
well, 1 a check failed, 2 this machine lacks something.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from tools.lab.gpu_check.base.setting import Setting
from tools.lab.gpu_check.checks import CHECKS, Check
from tools.lab.gpu_check.environment import missing
from tools.lab.gpu_check.report import markdown, verdicts, write_json
from tools.lab.gpu_check.run import Result, run_checks

FAILED, LACKING = 1, 2
PART_MINUTES = 9
PROGRAM = "python -m tools.lab.gpu_check"
PACK = next(one.default for one in fields(Setting) if one.name == "pack")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    given = _parser().parse_args(arguments)
    status: int = given.run(given)
    return status


def check(arguments: argparse.Namespace) -> int:
    """Run the chosen checks and report."""
    chosen = [listed for listed in CHECKS if _chosen(listed, arguments)]
    if arguments.list:
        for listed in CHECKS:
            print(f"{listed.part}  {listed.name:<18} {listed.limit_s:>4} s  {listed.about}")
        return 0
    if arguments.onnxruntime:
        sys.path.insert(0, str(arguments.onnxruntime))
    lacking = missing()
    if lacking:
        print("Nothing can be checked here:", *(f"  {problem}" for problem in lacking), sep="\n")
        return LACKING
    setting = Setting(arguments.pack, arguments.work, arguments.quick)
    minutes = arguments.minutes or PART_MINUTES * len({listed.part for listed in chosen})
    results = run_checks(chosen, setting, _environ(arguments.onnxruntime), minutes * 60)
    return _summary(results, arguments)


def _chosen(one: Check, given: argparse.Namespace) -> bool:
    return one.name in given.only if given.only else given.part in (None, one.part)


def _environ(onnxruntime: Path | None) -> dict[str, str]:
    """The environment of the checks' processes: the repository and the given onnxruntime come first on the
    path.
    """
    paths = [str(path) for path in (onnxruntime, Path.cwd()) if path]
    paths += [path for path in [os.environ.get("PYTHONPATH")] if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def _summary(results: list[Result], arguments: argparse.Namespace) -> int:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    command = "python -m tools.lab.gpu_check" + "".join(f" {shlex.quote(word)}" for word in arguments.words)
    if arguments.json:
        write_json(arguments.json, results, command, today)
    report = {"date": today, "command": command, "results": results}
    print("\n" + markdown(report))
    failed = [result["name"] for result in results if result["state"] == "fail"]
    for line in verdicts({result["name"]: result for result in results}):
        print(line)
    print(f"{len(results) - len(failed)} of {len(results)} checks without failure")
    if failed:
        print(f"failed: {', '.join(failed)}")
    return FAILED if failed else 0


def pack(arguments: argparse.Namespace) -> int:
    """Make the lowered graphs that the checks need."""
    try:
        from tools.lab.gpu_check.packs.pack import MODELS, make_pack
    except ImportError as error:
        print(f"IndexSettings a pack needs the extra `export`: {error}")
        return LACKING
    files = make_pack(arguments.out, arguments.models or MODELS)
    for path in files:
        print(f"{path}: {path.stat().st_size / 1e3:.1f} kB")
    print(f"together {sum(path.stat().st_size for path in files) / 1e3:.1f} kB")
    return 0


def report(given: argparse.Namespace) -> int:
    print(markdown(json.loads(given.file.read_text())), end="")
    return 0


def trim(arguments: argparse.Namespace) -> int:
    """A small onnxruntime-gpu for one architecture."""
    from tools.lab.gpu_check.trimming.trim import NotThisWheel, pack_folder, trim_wheel

    try:
        trimmed = trim_wheel(arguments.wheel, arguments.arch, arguments.out)
    except (OSError, NotThisWheel) as error:
        print(f"Not trimmed: {error}")
        return FAILED
    left = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sorted(trimmed.zeroed.items()))
    print(f"{trimmed.folder}: {trimmed.num_bytes / 1e6:.1f} MB, of which is zero: {left}")
    if arguments.xz:
        parts = pack_folder(
            trimmed.folder, arguments.xz, arguments.part_mib and arguments.part_mib * 2**20, print
        )
        for path in parts:
            print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__.splitlines()[0])
    parser.set_defaults(run=check, words=sys.argv[1:])
    parser.add_argument("--list", action="store_true", help="name the checks and run none")
    names = [listed.name for listed in CHECKS]
    parser.add_argument("--only", action="append", choices=names, help="run this check; may be repeated")
    parser.add_argument("--minutes", type=float, help=f"for all checks together ({PART_MINUTES} for a part)")
    parser.add_argument(
        "--part", type=int, choices=sorted({listed.part for listed in CHECKS}), help="run one half"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and smaller shapes")
    parser.add_argument("--json", type=Path, help="add the results to this file")
    parser.add_argument("--pack", type=Path, default=PACK, help="where `pack` wrote (%(default)s)")
    parser.add_argument(
        "--work", type=Path, default=Setting.work, help="for weights, up to 17 GB (%(default)s)"
    )
    parser.add_argument("--onnxruntime", type=Path, help="a folder with an unpacked onnxruntime-gpu wheel")
    commands = parser.add_subparsers(metavar="COMMAND")
    packing = commands.add_parser("pack", help="write lowered graphs for a machine that cannot export")
    packing.add_argument("--out", type=Path, default=PACK)
    packing.add_argument("--models", nargs="*", help="which shapes (all)")
    packing.set_defaults(run=pack)
    reporting = commands.add_parser("report", help="tables from a JSON file")
    reporting.add_argument("file", type=Path)
    reporting.set_defaults(run=report)
    trimming = commands.add_parser("trim-onnxruntime", help="onnxruntime-gpu for one architecture")
    trimming.add_argument("wheel", type=Path)
    trimming.add_argument("--arch", required=True, help="sm_90, for example")
    trimming.add_argument("--out", type=Path, required=True, help="the folder, for PYTHONPATH")
    trimming.add_argument("--xz", type=Path, help="pack the folder to this tar.xz too")
    trimming.add_argument("--part-mib", type=int, help="in parts of at most N MiB")
    trimming.set_defaults(run=trim)
    return parser


if __name__ == "__main__":
    sys.exit(main())
