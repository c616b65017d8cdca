"""Writes python.exe for Windows on x86-64: a program that calls `Py_Main` of Python's DLL, which does everything else.

    python tests/machines/python_exe.py FOLDER/python.exe python313.dll

Microsoft, PE Format: https://learn.microsoft.com/windows/win32/debug/pe-format
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

BASE, SECTION_AT, FILE_ALIGNMENT, SECTION_ALIGNMENT = 0x140000000, 0x1000, 0x200, 0x1000
STACK_BYTES = 16 << 20
_AMD64, _EXECUTABLE, _CONSOLE, _READ_WRITE_EXECUTE_CODE = 0x8664, 0x22, 3, 0xE0000020
_IMPORT_DIRECTORY, _DIRECTORIES = 1, 16


def imports(functions: dict[str, list[str]], start: int) -> tuple[bytes, int, dict[str, int]]:
    """The tables of what other DLLs have, for the address `start`.

    Returns: their bytes, the size of the directory at their beginning, and the address of each function's word.
    """
    directory_size = 20 * (len(functions) + 1)
    words_at, words = start + directory_size, sum(len(names) + 1 for names in functions.values())
    texts_at = words_at + 2 * 8 * words
    directory, lookups, texts, places = b"", b"", b"", {}
    for library, names in functions.items():
        first = len(lookups)
        for name in names:
            places[name] = words_at + 8 * words + len(lookups)
            lookups += struct.pack("<Q", texts_at + len(texts))
            texts += b"\0\0" + name.encode() + b"\0"
            texts += b"\0" * (len(texts) % 2)
        lookups += bytes(8)
        directory += struct.pack(
            "<IIIII", words_at + first, 0, 0, texts_at + len(texts), words_at + 8 * words + first
        )
        texts += library.encode() + b"\0"
        texts += b"\0" * (len(texts) % 2)
    return directory + bytes(20) + lookups + lookups + texts, directory_size, places


def code(start: int, places: dict[str, int]) -> bytes:
    """exit(Py_Main(argc, argv)), with room for five words on the stack."""
    image = bytes.fromhex("4883ec28")

    def call(name: str) -> bytes:
        return b"\xff\x15" + struct.pack("<i", places[name] - (start + len(image) + 6))

    image += call("GetCommandLineW")
    image += bytes.fromhex("488d542420 4889c1")  # lea rdx, [rsp+32]; mov rcx, rax
    image += call("CommandLineToArgvW")
    image += bytes.fromhex("8b4c2420 4889c2")  # mov ecx, [rsp+32]; mov rdx, rax
    image += call("Py_Main")
    image += bytes.fromhex("89c1")  # mov ecx, eax
    image += call("ExitProcess")
    return image + b"\xcc"


def program(library: str) -> bytes:
    """The file, for a DLL of Python."""
    wanted = {"kernel32.dll": ["GetCommandLineW", "ExitProcess"], "shell32.dll": ["CommandLineToArgvW"]}
    tables, directory_size, places = imports({**wanted, library: ["Py_Main"]}, SECTION_AT)
    entry = SECTION_AT + -(-len(tables) // 16) * 16
    content = tables.ljust(entry - SECTION_AT, b"\0") + code(entry, places)
    raw = content.ljust(-(-len(content) // FILE_ALIGNMENT) * FILE_ALIGNMENT, b"\0")
    directories = bytearray(8 * _DIRECTORIES)
    struct.pack_into("<II", directories, 8 * _IMPORT_DIRECTORY, SECTION_AT, directory_size)
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, len(raw), 0, 0, entry, SECTION_AT)
    versions, memory = (6, 0, 0, 0, 6, 0), 2 * SECTION_ALIGNMENT
    optional += struct.pack("<QII", BASE, SECTION_ALIGNMENT, FILE_ALIGNMENT)
    optional += struct.pack("<6HIIII", *versions, 0, memory, FILE_ALIGNMENT, 0)
    optional += struct.pack("<HHQQQQII", _CONSOLE, 0x100, STACK_BYTES, 0x10000, 1 << 20, 0x1000, 0, _DIRECTORIES)
    optional += directories
    headers = b"MZ".ljust(60, b"\0") + struct.pack("<I", 64) + b"PE\0\0"
    headers += struct.pack("<HHIIIHH", _AMD64, 1, 0, 0, 0, len(optional), _EXECUTABLE) + optional
    section = (len(content), SECTION_AT, len(raw), FILE_ALIGNMENT, 0, 0, 0, 0, _READ_WRITE_EXECUTE_CODE)
    headers += struct.pack("<8sIIIIIIHHI", b".text", *section)
    return headers.ljust(FILE_ALIGNMENT, b"\0") + raw


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(program(sys.argv[2]))
