"""Rows of a file that a person brings: JSON Lines, a JSON array, either of them compressed by gzip, or Parquet.

Other formats are recognized by their first bytes and named in the error. A file is read in memory proportional to its longest row; a JSON array,
and an object over several lines, are read whole. Such a document may have `MAX_DOCUMENT_BYTES`, a row `MAX_ROW_BYTES`, and a compressed file may expand
to `MAX_EXPANSION` times its size, at least 64 MiB and at most 1 GiB, so that a small file cannot fill the memory or take hours.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from colbench_gym.errors import TaskError

MAX_ROW_BYTES = 16 * 2**20
MAX_DOCUMENT_BYTES = 512 * 2**20
MAX_BLANK_LINES = 2**22
MAX_EXPANSION, _LEAST_EXPANDED, _MOST_EXPANDED = 200, 64 * 2**20, 2**30
#: Names of files with rows.
SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".parquet")
#: First bytes of other formats: the format, and what to do.
_FORMATS: tuple[tuple[bytes, str, str], ...] = (
    (b"\xff\xfe\0\0", "UTF-32 text", "convert it: `iconv -f UTF-32 -t UTF-8`"),
    (b"\0\0\xfe\xff", "UTF-32 text", "convert it: `iconv -f UTF-32 -t UTF-8`"),
    (b"\xff\xfe", "UTF-16 text", "convert it: `iconv -f UTF-16 -t UTF-8`"),
    (b"\xfe\xff", "UTF-16 text", "convert it: `iconv -f UTF-16 -t UTF-8`"),
    (b"\x1f\x8b", "a gzip file", "rename it so that its name ends in .jsonl.gz, or unpack it with `gunzip`"),
    (b"PAR1", "a Parquet file", "rename it so that its name ends in .parquet"),
    (b"PK\x03\x04", "a zip file", "unpack it with `unzip`"),
    (b"PK\x05\x06", "an empty zip file", "give a file with rows"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it with `zstd -d`"),
    (b"\xfd7zXZ\0", "an xz file", "unpack it with `unxz`"),
    (b"BZh", "a bzip2 file", "unpack it with `bunzip2`"),
    (b"\x04\x22\x4d\x18", "an lz4 file", "unpack it with `lz4 -d`"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z file", "unpack it with `7z x`"),
    (b"ARROW1", "an Arrow file", "write its rows with `datasets.Dataset.from_file(...).to_json('rows.jsonl')`"),
    (b"\xff\xff\xff\xff", "an Arrow stream", "write its rows with `datasets.Dataset.from_file(...).to_json('rows.jsonl')`"),
    (b"SQLite format 3\0", "an SQLite database", "export its rows as JSON Lines"),
    (b"ORC", "an ORC file", "export its rows as JSON Lines"),
    (b"\x80\x04\x95", "a pickle, which can run code when it is read", "export its rows as JSON Lines where you trust it"),
    (b"\x80\x05\x95", "a pickle, which can run code when it is read", "export its rows as JSON Lines where you trust it"),
    (b"\x93NUMPY", "a NumPy array", "export its rows as JSON Lines"),
    (b"\x89PNG", "a picture", "give a file with rows"),
    (b"\xff\xd8\xff", "a picture", "give a file with rows"),
    (b"<<<<<<< ", "a file with conflicts of a merge", "resolve them"),
    (b"Obj\x01", "an Avro file", "export its rows as JSON Lines"),
    (b"\x89HDF", "an HDF5 file", "export its rows as JSON Lines"),
    (b"%PDF", "a PDF file", "give a file with rows"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "get the file with `git lfs pull`"),
)  # fmt: skip
_HTML = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_XML = re.compile(rb"\s*<[?!\w]")
#: Names of columns: words, quoted or not, with one delimiter between all of them; that of an index is empty.
_HEADER = re.compile(rb'(?=.*[A-Za-z_])"?[\w .-]*"?([,\t;|])"?[\w .-]*"?(?:\1"?[\w .-]*"?)*\s*')
_ARRAY = re.compile(rb"\s*\[\s*[{\]]")
_BOM, _BETWEEN = b"\xef\xbb\xbf", b" \t\r\n\x1e,"
_HEAD_BYTES = 1 << 12


class Ordinal(int):
    """Number of a row, from 1, in a file whose rows are not lines."""


class _Expanding:
    """The text of a gzip file, up to a bound."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self.most = max_expanded_bytes(path)
        self.file = gzip.open(path, "rb")  # noqa: SIM115 - closed by `close`

    def readline(self, size: int) -> bytes:
        """As of a file."""
        return self._take(self.file.readline, size)

    def read(self, size: int) -> bytes:
        """As of a file."""
        return self._take(self.file.read, size)

    def _take(self, take: Any, size: int) -> bytes:
        try:
            data: bytes = take(min(size, self.most - self.count + 1))
        except (EOFError, OSError, zlib.error) as error:
            raise TaskError(f"{self.path} is a gzip file that is cut or damaged ({error}); get it again.") from None
        self.count = _counted(self.path, self.count + len(data))
        return data

    def __enter__(self) -> _Expanding:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def row_texts(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the JSON text of every row of a file; blank lines count. A text may be malformed, or be cut to `MAX_ROW_BYTES` plus one byte.

    Raises:
        TaskError: If the file does not exist, has another format, or is damaged.
    """
    try:
        _check_is_file(path)
        yield from (_parquet_texts if path.suffix.lower() == ".parquet" else _json_texts)(path)
    except OSError as error:
        raise TaskError(f"The file {str(path)[:200]!r} cannot be read ({error.strerror}); give another one.") from None


def _json_texts(path: Path) -> Iterator[tuple[int, bytes]]:
    with _opened(path) as file:
        start = file.read(_HEAD_BYTES)
    _check_format(path, start)
    first = next((line for _, line in _lines(path)), b"")
    if _ARRAY.match(start.removeprefix(_BOM)):
        yield from _numbered(_elements(path, _whole(path)))
    elif isinstance(whole := _parsed(first), dict) and not isinstance(whole.get("data"), list):
        yield from _lines(path)
    else:
        yield from _document(path) or _lines(path)


def parse_row(text: bytes) -> tuple[dict[str, Any] | None, str]:
    """A row from its text: the row and "", or None and what was expected."""
    if len(text) > MAX_ROW_BYTES:
        return None, f"at most {MAX_ROW_BYTES} bytes"
    try:
        row = _loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        hint = "text in Latin-1 or Windows-1252 is converted by `iconv -f WINDOWS-1252 -t UTF-8`"
        return None, f"a JSON object in UTF-8, and byte {error.object[error.start]:#04x} is not ({hint})"
    except (ValueError, RecursionError) as error:
        return None, f"a JSON object ({_reason(text, error)})"
    if isinstance(row, str) and row.lstrip().startswith("{"):
        return None, "a JSON object, not a text that holds one (encoded twice)"
    return (row, "") if isinstance(row, dict) else (None, "a JSON object")


def _loads(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: If it is none, or if an object has a key twice: `json` would drop all values but the last.
    """
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)[:50]!r} occurs twice")
    return row


def _reason(text: bytes, error: Exception) -> str:
    """Why a text is no JSON object, in terms of what people write for one."""
    if text.startswith((b"//", b"/*", b"#")):
        return "JSON has no comments; remove them"
    if text.startswith((b"{'", b"[{'")):
        return "JSON has double quotes; this is Python's notation, so write rows by `json.dumps`"
    if text.startswith(b"\x1b"):
        return "the text has colours of a terminal; write it without them, as by `jq -M`"
    return str(error)


def stem(path: Path) -> str:
    """The name of a file without its endings."""
    return Path(path.name.removesuffix(".gz")).stem


def max_expanded_bytes(path: Path) -> int:
    """The most bytes that a compressed file may expand to."""
    return min(max(MAX_EXPANSION * path.stat().st_size, _LEAST_EXPANDED), _MOST_EXPANDED)


def _counted(path: Path, count: int) -> int:
    """The count of expanded bytes.

    Raises:
        TaskError: If the file expands too far.
    """
    if count > (most := max_expanded_bytes(path)):
        raise TaskError(
            f"{path} expands to more than {most} bytes, the most for a compressed file of its size; give it unpacked, as JSON Lines."
        )
    return count


def refuse_folder(path: Path) -> None:
    """Refuse a folder.

    Raises:
        TaskError: If the path is one.
    """
    if path.is_dir():
        is_dataset = any((path / name).is_file() for name in ("state.json", "dataset_dict.json", "dataset_info.json"))
        what = "a folder that `datasets` saved" if is_dataset else "a folder"
        advice = (
            "write its rows with `datasets.load_from_disk(...).to_json('rows.jsonl')`" if is_dataset else "name a file in it"
        )
        raise TaskError(f"Expected a file of rows, got {what} at {str(path)!r}; {advice}.")


def _check_is_file(path: Path) -> None:
    refuse_folder(path)
    if not path.is_file():
        if path.exists():
            raise TaskError(
                f"Expected a file of rows, got a pipe, a socket or a device at {str(path)!r}; write its rows to a file."
            )
        raise TaskError(f"Expected a JSONL file of tasks at {str(path)!r}, found none; give the path of an existing file.")


def _check_format(path: Path, start: bytes) -> None:
    """Refuse a file of another format, given its first bytes as they are unpacked."""
    recognized = next(((what, advice) for magic, what, advice in _FORMATS if start.startswith(magic)), None)
    text = start.removeprefix(_BOM)
    if recognized is None and start and not start.strip(b"\0"):
        recognized = ("zero bytes, as an interrupted copy leaves them", "get it again")
    elif recognized is None and start[257:262] == b"ustar":
        recognized = ("a tar archive", "unpack it with `tar xf`")
    elif recognized is None and len(start) > 3 and b"\0" in start[:4]:
        wide = "UTF-32" if start[:4].count(0) == 3 else "UTF-16"
        recognized = (f"{wide} text", f"convert it: `iconv -f {wide}{'BE' if start[0] == 0 else 'LE'} -t UTF-8`")
    elif recognized is None and _HTML.match(text):
        recognized = ("an HTML page, such as the error page of a server", "download the file itself")
    elif recognized is None and _XML.match(text):
        recognized = ("XML", "export its rows as JSON Lines")
    elif recognized is None and (header := _HEADER.fullmatch(text.partition(b"\n")[0])):
        name, separator = ("TSV", "\\t") if header[1] == b"\t" else ("CSV", header[1].decode())
        recognized = (
            f"a {name} table",
            f"write its rows with `pandas.read_csv(..., sep='{separator}').to_json('rows.jsonl', orient='records', lines=True)`",
        )
    if recognized is not None:
        raise TaskError(f"{path}: expected JSON Lines (a JSON object a line, in UTF-8), got {recognized[0]}; {recognized[1]}.")


def _opened(path: Path) -> BinaryIO | _Expanding:
    """The file, unpacked if its name ends in .gz.

    Raises:
        TaskError: If it ends so and is not packed.
    """
    with path.open("rb") as file:
        start = file.read(_HEAD_BYTES)
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    if not start.startswith(b"\x1f\x8b"):
        _check_format(path, start)
        raise TaskError(f"{path} is not a gzip file, though its name ends in .gz; rename it so that its name ends in .jsonl.")
    return _Expanding(path)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, without commas and white space around them. A longer line is cut to `MAX_ROW_BYTES` plus one byte."""
    with _opened(path) as file:
        number = last = 0
        while line := file.readline(MAX_ROW_BYTES + 1):
            number += 1
            if number - last > MAX_BLANK_LINES:
                raise TaskError(f"{path} has more than {MAX_BLANK_LINES} blank lines one after the other; remove them.")
            is_cut = len(line) > MAX_ROW_BYTES
            text = line if is_cut else line.removeprefix(_BOM).strip(_BETWEEN)
            if text:
                yield number, text
                last = number
            while is_cut and not line.endswith(b"\n"):
                line = file.readline(MAX_ROW_BYTES + 1)
                is_cut = bool(line)


def _whole(path: Path) -> str:
    """The text of a document.

    Raises:
        TaskError: If it is too long or not UTF-8.
    """
    with _opened(path) as file:
        data = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise TaskError(f"{path}: expected a JSON document of at most {MAX_DOCUMENT_BYTES} bytes; write a JSON object a line.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskError(
            f"{path}: expected text in UTF-8, got byte {error.object[error.start]:#04x} at {error.start}; text in Latin-1 or Windows-1252 is "
            "converted by `iconv -f WINDOWS-1252 -t UTF-8`."
        ) from None


def _elements(path: Path, text: str) -> Iterator[str]:
    """The texts of the elements of an array; a comma behind the last is no fault.

    Raises:
        TaskError: If the array is malformed.
    """
    try:
        end = yield from _values(text, text.index("[") + 1)
        if text[end : end + 1] != "]" or text[end + 1 :].strip():
            raise json.JSONDecodeError("Expecting ',' or ']' and the end" if end < len(text) else "No closing ']'", text, end)
    except (ValueError, RecursionError) as error:
        raise TaskError(
            f"{path}: expected a JSON array of rows ({error}); correct it, or write a JSON object a line."
        ) from None


def _values(text: str, at: int) -> Generator[str, None, int]:
    """Yield the texts of JSON values with commas or white space between them; returns the position of what is none of these."""
    decoder, between = json.JSONDecoder(), re.compile(r"[\s,\x1e]*")
    while (at := between.match(text, at).end()) < len(text) and text[at] != "]":  # type: ignore[union-attr]
        start = at
        _, at = decoder.raw_decode(text, start)
        yield text[start:at]
    return at


def _document(path: Path) -> list[tuple[int, bytes]]:
    """The rows of a file whose objects are not lines: over several lines, or several on a line, or under the key "data" of one; [] if it is none."""
    if path.suffix.lower() != ".gz" and path.stat().st_size > MAX_DOCUMENT_BYTES:
        return []
    try:
        texts = list(_values(_whole(path), 0))
        values = [_loads(text) for text in texts]
    except (ValueError, RecursionError, TaskError):
        return []
    if len(values) == 1 and isinstance(values[0], dict) and _is_table(values[0].get("data")):
        texts = [json.dumps(row) for row in values[0]["data"]]
    elif not values or not all(isinstance(value, dict) for value in values):
        return []
    return list(_numbered(texts))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _numbered(texts: Iterable[str]) -> Iterator[tuple[int, bytes]]:
    return ((Ordinal(number), text.encode("utf-8", "surrogatepass")) for number, text in enumerate(texts, 1))


def _parsed(text: bytes) -> Any:
    """The value of a line that is one JSON text; None if it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str:
    """The text of a value that JSON does not have; bytes are the texts of a writer that did not mark them as such."""
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _parquet_texts(path: Path) -> Iterator[tuple[int, bytes]]:
    """The rows of a Parquet file as JSON. Values that JSON does not have become their text."""
    with path.open("rb") as file:
        start = file.read(_HEAD_BYTES)
    if not start.startswith(b"PAR1"):
        _check_format(path, start)
        raise TaskError(
            f"{path} is not a Parquet file, though its name ends in .parquet; rename it so that its name ends in .jsonl."
        )
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise TaskError(f"{path} is a Parquet file, which needs pyarrow: `pip install pyarrow`.") from None
    try:
        batches, count = ParquetFile(path).iter_batches(batch_size=16), 0
        for number, row in enumerate(chain.from_iterable(batch.to_pylist(maps_as_pydicts="strict") for batch in batches), 1):
            text = json.dumps(row, default=_text).encode()
            count = _counted(path, count + len(text))
            yield Ordinal(number), text
    except (TaskError, OSError):
        raise
    except Exception as error:  # pyarrow raises a dozen unrelated types for a damaged file
        reason = str(error).partition("\n")[0]
        raise TaskError(f"{path} is a Parquet file that cannot be read ({reason}); get it again.") from error
