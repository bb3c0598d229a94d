"""`python -m tools.lab.bench.peers.gguf_floats SOURCE TARGET`: a GGUF file with all its weights in F32.

llama.cpp rounds what meets quantized weights to int8; with such a copy it computes in float32.  Runs in an
environment with the `gguf` package.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf

ARCHITECTURE = "general.architecture"
OWN = ("GGUF.", ARCHITECTURE, "general.file_type", "general.quantization_version")
"""Beginnings of the names that the writer sets itself, or that say how weights are stored."""


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields[ARCHITECTURE].contents())
    for field in reader.fields.values():
        if not field.name.startswith(OWN):
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, values.astype("float32").reshape(tensor.shape[::-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
