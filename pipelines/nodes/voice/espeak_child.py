"""Text → phonemes by the machine's libespeak-ng, as a program of its own: `espeak_child.py LIBRARY VOICE`.

It imports nothing of Braid, so that the library, which is under the GPL and reads texts of strangers, is in a
process of its own.  Each line of its input is a text as JSON; each line of its output is a list of clauses,
the phonemes of each and the text that was read for it.  The first line says that it is ready, `[]`, or why it
is not, `{"error": ...}`.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys

MAX_MEMORY_BYTES = 1 << 30
SYNCHRONOUS, DO_NOT_EXIT = 2, 0x8000
UTF8, IPA = 1, 2


def start(path: str, voice: str) -> ctypes.CDLL:
    """The library with a voice.  Raises OSError."""
    library = ctypes.CDLL(path)
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    if library.espeak_Initialize(SYNCHRONOUS, 0, None, DO_NOT_EXIT) < 0:
        raise OSError(f"{path} does not start: the data of espeak-ng are missing")
    if library.espeak_SetVoiceByName(voice.encode()) != 0:
        raise OSError(f"espeak-ng has no voice `{voice}`")
    return library


def clauses(library: ctypes.CDLL, text: str) -> list[tuple[str, str]]:
    """The phonemes of each clause, and the text that was read for it.

    The library reads a character ahead; a space at the end keeps the last one of the text from being left
    over for the next text.
    """
    data = ctypes.create_string_buffer(text.encode(errors="replace") + b" ")
    at, end = ctypes.c_void_p(ctypes.addressof(data)), ctypes.addressof(data) + len(data) - 1
    clauses_read = []
    while at.value is not None:
        begin = at.value
        phonemes = library.espeak_TextToPhonemes(ctypes.byref(at), UTF8, IPA) or b""
        size = (end if at.value is None else at.value) - begin
        read = ctypes.string_at(begin, size)
        clauses_read.append((phonemes.decode(errors="replace"), read.decode(errors="replace")))
    return clauses_read


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        library = start(*sys.argv[1:3])
    except OSError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print("[]", flush=True)
    for line in sys.stdin:
        print(json.dumps(clauses(library, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
