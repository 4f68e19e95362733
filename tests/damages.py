"""Ways in which a file of a folder is damaged or changed behind the back of the command that wrote it."""

from __future__ import annotations

import os
import re


def deleted(path):
    path.unlink()


def cut_mid_line(path):
    data = path.read_bytes()
    start = data.rfind(b"\n", 0, len(data) * 3 // 4) + 1
    end = data.find(b"\n", start)
    path.write_bytes(data[: (start + (end if end >= 0 else len(data))) // 2])


def cut_at_a_line_end(path):
    data = path.read_bytes().rstrip(b"\n")
    path.write_bytes(data[: data.rfind(b"\n") + 1])  # nothing of a file of one line


def one_bit_flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def replaced(path):
    """By the same file of another run: other rows, other weights, other numbers."""
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    path.write_bytes(
        b"".join(lines[1:] + lines[-1:]) if len(lines) > 1 and path.suffix == ".jsonl" else data[:-64] + data[-64:][::-1]
    )


def edited(path):
    """Some digits, so that text and JSON stay valid."""
    data = path.read_bytes()
    path.write_bytes(
        re.sub(rb"\d", lambda digit: b"%d" % ((int(digit[0]) % 8) + 1), data)
        if path.suffix in (".json", ".jsonl", ".yaml")
        else data + b"\n"
    )


def a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "note.txt").write_text("mine")


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_loop(path):
    path.unlink()
    path.symlink_to(path.name)


DAMAGES = (deleted, cut_mid_line, cut_at_a_line_end, one_bit_flipped, replaced, edited)
#: What is no file in the place of one: reading it fails, or takes for ever.
NO_FILES = (a_folder, a_pipe, a_loop)
