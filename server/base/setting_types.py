"""The types of settings that are more than a number or a text: how each is read and checked."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from pipelines.inference.backends.registry import devices_of_all
from pipelines.wire.lora_modules import parse_module
from server.base.api_names import API_NAMES

MAX_ENGINES = 64
DEVICE = "|".join(devices_of_all())


def _split(value: object) -> object:
    return re.findall(r"[^,\s]+", value) if isinstance(value, str) else value


def _split_modules(value: object) -> object:
    return re.findall(r"\{[^{}]*\}|[^\s{]+", value) if isinstance(value, str) else value


def _check_modules(modules: tuple[str, ...]) -> tuple[str, ...]:
    for module in modules:
        parse_module(module)
    return modules


def _check_apis(given: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the families that are on; names with a hyphen before them are left out of all."""
    named = [name.removeprefix("-") for name in given]
    if wrong := [name for name in named if name not in API_NAMES]:
        nearest = get_close_matches(wrong[0], API_NAMES, 1, 0.0)[0]
        raise ValueError(f"{wrong[0]}: unknown API; did you mean {nearest}? All: {', '.join(API_NAMES)}")
    if len({name.startswith("-") for name in given}) > 1:
        raise ValueError("name either the APIs that are on, or with a hyphen those that are off")
    is_on = not given or not given[0].startswith("-")
    return tuple(name for name in API_NAMES if (name in named) == (is_on and bool(given)))


def _check_device(device: str) -> str:
    if not re.fullmatch(DEVICE, device):
        raise ValueError("expected cpu, cuda (the first GPU) or cuda:N")
    return device


def _check_kernels(kernels: str) -> str:
    if kernels not in ("auto", "off") and not Path(kernels).expanduser().is_dir():
        raise ValueError("expected auto, off or a folder")
    return kernels


def _check_engines(engines: tuple[str, ...]) -> tuple[str, ...]:
    if len(engines) == 1 and engines[0].isdecimal() and 1 <= int(engines[0]) <= MAX_ENGINES:
        return engines
    if wrong := [device for device in engines if not re.fullmatch(DEVICE, device)]:
        raise ValueError(f"{wrong[0]}: expected devices, as cuda:0, or one number from 1 to {MAX_ENGINES}")
    if len({*engines}) < len(engines):
        raise ValueError("a device may be named once")
    return engines


Apis = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_check_apis)]
"""Families of APIs, by the names of `API_NAMES`; read, those that are on."""
Device = Annotated[str, AfterValidator(_check_device)]
Kernels = Annotated[str, AfterValidator(_check_kernels)]
"""Where compiled kernels are: a folder, or `auto` or `off`."""
ValueList = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Several values, separated by commas, spaces or line ends."""
LoraModules = Annotated[tuple[str, ...], BeforeValidator(_split_modules), AfterValidator(_check_modules)]
"""Adapters, each in a form that `parse_module` reads."""
Engines = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_check_engines)]
"""Devices, or one number."""
Folder = Annotated[Path, BeforeValidator(lambda value: Path(value).expanduser().resolve())]
