"""Writes the weights of a GGUF file into the data file of a graph, piece by piece on all cores.

The graph comes first: then the size of all weights is known before one of them is read, and memory holds few
pieces at a time, however large a tensor is.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.gguf.reader import GgufTensor, Rows
from pipelines.gguf.tensor_types import TYPE_NUMBERS
from pipelines.gguf.weights import is_float, read_any, read_blocks, read_packed, read_stored
