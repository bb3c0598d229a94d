"""Trimming CUDA code out of a shared library: synthetic files, byte by byte."""

import lzma
import struct
import tarfile
import zipfile

import pytest

from tools.lab.gpu_check.__main__ import main
from tools.lab.gpu_check.trimming.elf import NotElf, sections
from tools.lab.gpu_check.trimming.fatbin import fat_binaries, trimmed
from tools.lab.gpu_check.trimming.trim import PROVIDER, NotThisWheel, pack_folder, trim_wheel

PTX, CODE = 1, 2


def entry(kind, architecture, payload, header=64):
    head = struct.pack("<HHIQ12xI", kind, 0x101, header, len(payload), architecture)
    return head.ljust(header, b"\0") + payload


def fat_binary(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def shared_library(**named):
    """An ELF file of these sections (null and string table added), each behind 8 odd bytes."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in [*named, ".shstrtab"])
    contents = [*named.items(), (".shstrtab", names)]
    data, headers = bytearray(64), [bytes(64)]
    for name, content in contents:
        data += b"\xaa" * 8
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, len(data), len(content), 0, 0, 8, 0))
        data += content
    table = len(data)
    data += b"".join(headers)
    count = len(headers)
    struct.pack_into(
        "<16sHHIQQQIHHHHHH",
        data,
        0,
        b"\x7fELF\x02\x01\x01",
        3,
        62,
        1,
        0,
        0,
        table,
        0,
        64,
        0,
        0,
        64,
        count,
        count - 1,
    )
    return bytes(data)


def library(*fat, text=b"machine code of the processor"):
    return shared_library(**{".text": text, ".nv_fatbin": (b"\0" * 8).join(fat)})


def test_sections_have_names_and_places():
    data = shared_library(**{".text": b"12345", ".nv_fatbin": b"67"})
    found = {section.name: data[section.offset : section.offset + section.size] for section in sections(data)}
    assert found[".text"] == b"12345"
    assert found[".nv_fatbin"] == b"67"


def test_the_count_of_sections_may_stand_in_the_first_one():
    data = bytearray(shared_library(**{".text": b"12345"}))
    table = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<HH", data, 60, 0, 0xFFFF)
    struct.pack_into("<QI", data, table + 32, 3, 2)
    assert [section.name for section in sections(data)] == ["", ".text", ".shstrtab"]


@pytest.mark.parametrize("data", [b"", b"MZ" + bytes(100), b"\x7fELF\x01\x01" + bytes(100)])
def test_other_files_are_refused(data):
    with pytest.raises(NotElf):
        sections(data)


def test_entries_are_listed_by_architecture():
    data = library(
        fat_binary(entry(CODE, 80, b"a" * 16), entry(CODE, 90, b"b" * 24, header=80)),
        fat_binary(entry(PTX, 90, b"c" * 8)),
    )
    found = [
        [(one.architecture, data[one.offset : one.offset + one.size]) for one in many]
        for many in fat_binaries(data)
    ]
    assert found == [[("sm_80", b"a" * 16), ("sm_90", b"b" * 24)], [("compute_90", b"c" * 8)]]


def test_only_other_architectures_become_zeros():
    old, kept, newer = b"\x11" * 16, b"\x22" * 24, b"\x33" * 8
    parts = [entry(CODE, 80, old), entry(CODE, 90, kept), entry(CODE, 120, newer)]
    data = bytearray(library(fat_binary(*parts)))
    expected = bytes(data).replace(old, bytes(16)).replace(newer, bytes(8))
    assert trimmed(data, "sm_90") == {"sm_80": 16, "sm_120": 8}
    assert bytes(data) == expected


def test_what_has_nothing_for_the_architecture_stays_whole():
    data = bytearray(
        library(fat_binary(entry(CODE, 80, b"\x11" * 16)), fat_binary(entry(PTX, 52, b"\x22" * 8)))
    )
    before = bytes(data)
    assert trimmed(data, "sm_90") == {}
    assert bytes(data) == before


def test_an_unknown_layout_is_no_endless_loop():
    data = library(fat_binary(entry(CODE, 80, b"", header=64)[:8] + bytes(56)))
    broken = data.replace(struct.pack("<HHI", CODE, 0x101, 64), struct.pack("<HHI", CODE, 0x101, 0))
    with pytest.raises(ValueError, match="unknown layout"):
        list(fat_binaries(broken))


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "onnxruntime_gpu.whl"
    with zipfile.ZipFile(path, "w") as archive:
        code = fat_binary(entry(CODE, 80, b"\x11" * 4000), entry(CODE, 90, b"\x22" * 4000))
        archive.writestr(PROVIDER, library(code))
        archive.writestr("onnxruntime/__init__.py", "__version__ = '1'")
        archive.writestr("onnxruntime/ThirdPartyNotices.txt", "notices")
        archive.writestr("onnxruntime/capi/libonnxruntime_providers_tensorrt.so", "tensorrt")
        archive.writestr("onnxruntime/transformers/optimizer.py", "")
        archive.writestr("onnxruntime_gpu-1.dist-info/METADATA", "Name: onnxruntime-gpu")
    return path


def test_a_wheel_becomes_a_folder_that_can_be_imported(wheel, tmp_path):
    trimmed_wheel = trim_wheel(wheel, "sm_90", tmp_path / "out")
    names = {
        str(path.relative_to(trimmed_wheel.folder))
        for path in trimmed_wheel.folder.rglob("*")
        if path.is_file()
    }
    assert names == {
        PROVIDER,
        "onnxruntime/__init__.py",
        "onnxruntime/ThirdPartyNotices.txt",
        "onnxruntime_gpu-1.dist-info/METADATA",
    }
    assert trimmed_wheel.zeroed == {"sm_80": 4000}
    assert b"\x22" * 4000 in (trimmed_wheel.folder / PROVIDER).read_bytes()
    assert b"\x11" not in (trimmed_wheel.folder / PROVIDER).read_bytes()


def test_a_wheel_without_the_architecture_leaves_the_folder_alone(wheel, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    with pytest.raises(NotThisWheel, match="sm_100"):
        trim_wheel(wheel, "sm_100", tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "kept"


def test_the_archive_in_parts_is_the_archive(wheel, tmp_path):
    folder = trim_wheel(wheel, "sm_90", tmp_path / "out").folder
    (whole,) = pack_folder(folder, tmp_path / "whole.tar.xz", None, print)
    parts = pack_folder(folder, tmp_path / "parts.tar.xz", 300, print)
    assert len(parts) > 1
    assert b"".join(part.read_bytes() for part in parts) == whole.read_bytes()
    assert max(part.stat().st_size for part in parts) <= 300
    with lzma.open(whole) as raw, tarfile.open(fileobj=raw) as tar:
        assert tar.extractfile("onnxruntime/__init__.py").read() == b"__version__ = '1'"


def test_the_command_says_the_size(wheel, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert main(["trim-onnxruntime", str(wheel), "--arch", "sm_90", "--out", out]) == 0
    assert "sm_80 0.0 MB" in capsys.readouterr().out
    assert main(["trim-onnxruntime", str(tmp_path / "none.whl"), "--arch", "sm_90", "--out", out]) == 1
    assert "Not trimmed" in capsys.readouterr().out
