"""Reduces onnxruntime-gpu to one GPU architecture: unpacks a wheel to a folder, optionally an archive.

The wheel holds machine code for six architectures, the TensorRT provider and packages that serving never
imports. Without them it is a fifth of its size, and behaves the same on the remaining architecture.
"""

from __future__ import annotations

import io
import lzma
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tools.lab.gpu_check.trimming.fatbin import trimmed

PROVIDER = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
LEFT_OUT = re.compile(
    r"onnxruntime/(tools|transformers|quantization|datasets|backend)/"
    r"|onnxruntime/capi/(libonnxruntime_providers_tensorrt\.so|libonnxruntime\.so|training/)"
    r"|[^/]*\.dist-info/(RECORD|entry_points)"
)
"""TensorRT; the C library (Python's module has it inside); what only converts or prepares models."""
PART = "{name}.part{number:02d}"


class NotThisWheel(Exception):
    """The file is no onnxruntime-gpu wheel, or has no code for the architecture."""


class Trimmed(NamedTuple):
    folder: Path
    num_bytes: int
    zeroed: dict[str, int]  # architecture → bytes


def trim_wheel(wheel: Path, architecture: str, folder: Path) -> Trimmed:
    """Unpack what `architecture` ("sm_90") needs of the wheel into `folder`, which is replaced.

    `folder` goes on PYTHONPATH.  Raises `NotThisWheel`, and then `folder` is as it was.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not LEFT_OUT.match(name)]
        if PROVIDER not in names:
            raise NotThisWheel(f"{wheel} has no {PROVIDER}: is it an onnxruntime-gpu wheel?")
        provider = bytearray(archive.read(PROVIDER))
        zeroed = trimmed(provider, architecture)
        if not zeroed:
            raise NotThisWheel(f"{wheel} has no code for {architecture} beside that of other architectures")
        shutil.rmtree(folder, ignore_errors=True)
        archive.extractall(folder, [name for name in names if name != PROVIDER])
    (folder / PROVIDER).parent.mkdir(parents=True, exist_ok=True)
    (folder / PROVIDER).write_bytes(provider)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Trimmed(folder, size, zeroed)


def pack_folder(
    folder: Path, archive: Path, part_bytes: int | None, stage: Callable[[str], None]
) -> list[Path]:
    """`folder`'s content as tar.xz: one file, or parts of at most `part_bytes` bytes (`cat` joins them).

    The same content gives the same bytes.  Takes a minute or two and 1.5 GB of memory for 300 MB.
    """
    stage("compressing, some minutes")
    filters = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=_anonymous)
    packed = lzma.compress(raw.getbuffer(), check=lzma.CHECK_CRC64, filters=filters)
    return _write(packed, archive, part_bytes)


def _write(packed: bytes, archive: Path, part_bytes: int | None) -> list[Path]:
    archive.parent.mkdir(parents=True, exist_ok=True)
    if part_bytes is None:
        archive.write_bytes(packed)
        return [archive]
    parts = []
    for number, at in enumerate(range(0, len(packed), part_bytes)):
        parts.append(archive.with_name(PART.format(name=archive.name, number=number)))
        parts[-1].write_bytes(packed[at : at + part_bytes])
    return parts


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry
