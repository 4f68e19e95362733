"""Files of rows as people bring them: read in many forms, other formats named."""

from __future__ import annotations

import builtins
import gzip
import json
import os
import random

import pytest

from colbench_gym import user_file
from colbench_gym.errors import TaskError
from colbench_gym.grade import read_attempts
from colbench_gym.tasks import load_tasks
from colbench_gym.tasks.rows import RowError, read_tasks, row_from_task

ROW = {
    "problem_description": "Größe plus one.\nThe signature of the function is: def f(x)",
    "ground_truth": "def f(x):\n    return x + 1",
    "test_cases": {"test1": "f(1)", "test2": "f(2)"},
}
ROWS = [{**ROW, "number": number} for number in range(3)]
LINES = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
ARRAY = json.dumps(ROWS, indent=2)
READABLE = {
    "plain": LINES.encode(),
    "byte order mark": b"\xef\xbb\xbf" + LINES.encode(),
    "byte order marks of joined files": ("\ufeff" + LINES.replace("\n", "\n\ufeff")).encode(),
    "Windows line ends": LINES.replace("\n", "\r\n").encode(),
    "old Mac line ends": LINES.replace("\n", "\r").encode(),
    "blank lines": ("\n\n" + LINES.replace("\n", "\n \t\n") + "\n\n").encode(),
    "commas behind rows": (LINES.replace("\n", ",\n") + ",\n").encode(),
    "record separators": ("\x1e" + LINES.replace("\n", "\n\x1e")).encode(),
    "array": ARRAY.encode(),
    "array on a line": json.dumps(ROWS).encode(),
    "array with a last comma": (ARRAY.rstrip("]").rstrip() + ",\n]\n").encode(),
    "array with a byte order mark": b"\xef\xbb\xbf" + ARRAY.encode(),
    "rows over several lines": "\n".join(json.dumps(row, indent=1) for row in ROWS).encode(),
    "rows on one line": LINES.replace("\n", " ").encode(),
    "rows under data": json.dumps({"version": 1, "data": ROWS}).encode(),
    "rows under data, indented": json.dumps({"data": ROWS}, indent=2).encode(),
}


def numbers(path, on_error="raise"):
    return [row_from_task(task)["number"] for task in read_tasks(path, on_error)]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("content", READABLE.values(), ids=READABLE)
def test_rows_are_read(content, on_error, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    assert numbers(path, on_error) == [0, 1, 2]
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(content))
    assert numbers(packed, on_error) == [0, 1, 2]
    assert [task.id.split("/")[0] for task in load_tasks(f"{packed}[:1]")] == ["packed"]


def test_ids_count_lines_where_rows_are_lines_and_rows_where_they_are_not(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text("\n" + LINES)
    assert [task.id for task in read_tasks(path)] == ["rows/1", "rows/2", "rows/3"]
    path.write_text(ARRAY)
    assert [task.id for task in read_tasks(path)] == ["rows/0", "rows/1", "rows/2"]
    path.write_text(json.dumps([ROW, {**ROW, "ground_truth": ""}, ROW]))
    with pytest.raises(RowError, match=r"rows\.json, row 2, field 'ground_truth': expected the source of a function, got ''"):
        read_tasks(path)
    assert [task.id for task in read_tasks(path, "skip")] == ["rows/0", "rows/2"]


def test_parquet_is_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow; run `pip install pyarrow`")
    table = pytest.importorskip("pyarrow").Table.from_pylist(
        [*ROWS, {**ROW, "number": 3, "test_cases": {"test1": "f(1)", "test9": "f(9)"}}]
    )
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path)
    assert numbers(path) == [0, 1, 2, 3]
    assert [len(task.hidden.calls) for task in load_tasks(str(path))] == [2, 2, 2, 2]
    assert len(load_tasks(f"{path}[1:]")) == 3
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TaskError, match=r"rows\.parquet is a Parquet file that cannot be read \(.+\); get it again\.$"):
        read_tasks(path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    def without(name, *rest, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **options)

    real = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1....PAR1")
    with pytest.raises(TaskError, match=r"rows\.parquet is a Parquet file, which needs pyarrow: `pip install pyarrow`\.$"):
        read_tasks(tmp_path / "rows.parquet")


FOREIGN = [
    ("rows.jsonl", LINES.encode("utf-16"), "UTF-16 text; convert it: `iconv -f UTF-16 -t UTF-8`"),
    ("rows.jsonl", b"\xfe\xff" + LINES.encode("utf-16-be"), "UTF-16 text"),
    ("rows.jsonl", LINES.encode("utf-16-le"), "UTF-16 text; convert it: `iconv -f UTF-16LE"),
    ("rows.jsonl", LINES.encode("utf-16-be"), "UTF-16 text; convert it: `iconv -f UTF-16BE"),
    ("rows.jsonl", LINES.encode("utf-32"), "UTF-32 text"),
    ("rows.jsonl", LINES.encode("utf-32-be"), "UTF-32 text; convert it: `iconv -f UTF-32BE"),
    ("rows.jsonl", gzip.compress(LINES.encode(), mtime=0), "a gzip file; rename it so that its name ends in .jsonl.gz"),
    ("rows.jsonl", b"PAR1\x15\x04", "a Parquet file; rename it so that its name ends in .parquet"),
    ("rows.jsonl", b"PK\x03\x04\x14\x00", "a zip file"),
    ("rows.jsonl", b"\x28\xb5\x2f\xfd\x24\x30", "a zstd file"),
    ("rows.jsonl.gz", b"BZh91AY&SY", "a bzip2 file"),
    ("rows.jsonl", b"\xfd7zXZ\x00\x00", "an xz file"),
    ("rows.jsonl", b"ARROW1\x00\x00", "an Arrow file"),
    ("rows.json", b"\n <!DOCTYPE html>\n<html><body>404</body></html>", "an HTML page, such as the error page of a server"),
    ("rows.json", b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML"),
    ("rows.jsonl", b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n", "a pointer of Git LFS, not the file itself; get the file"),
    ("rows.jsonl", b'problem_description,ground_truth,test_cases\n"a","b","c"\n', "a CSV table"),
    ("rows.jsonl", b"\xef\xbb\xbfproblem_description\tground_truth\ttest_cases\n1\t2\t3\n", "a TSV table"),
    ("rows.jsonl.gz", gzip.compress(b"PAR1\x15\x04", mtime=0), "a Parquet file"),
    ("rows.jsonl.gz", gzip.compress(LINES.encode("utf-16"), mtime=0), "UTF-16 text"),
    ("rows.parquet", b"<html>gone</html>", "an HTML page"),
    ("rows.jsonl", b";problem_description;ground_truth\r\n0;a;b\r\n", "a CSV table; write its rows with `pandas.read_csv(..., sep=';')"),
    ("rows.jsonl", b",problem_description,ground truth\n0,a,b\n", "a CSV table"),
    ("rows.jsonl", b"\tproblem_description\tground_truth\n0\ta\tb\n", "a TSV table; write its rows with `pandas.read_csv(..., sep='\\t')"),
    ("rows.jsonl", bytes(100), "zero bytes, as an interrupted copy leaves them; get it again"),
    ("rows.jsonl", b"rows.jsonl".ljust(257, b"\0") + b"ustar\0", "a tar archive"),
    ("rows.jsonl.gz", gzip.compress(b"rows.jsonl".ljust(257, b"\0") + b"ustar\0", mtime=0), "a tar archive"),
    ("rows.jsonl", b"\x80\x05\x95\x85\x00", "a pickle, which can run code"),
    ("rows.jsonl", b"\x89PNG\r\n\x1a\n", "a picture"),
    ("rows.jsonl", b"\x93NUMPY\x01\x00", "a NumPy array"),
    ("rows.jsonl", b"ORC\x01", "an ORC file"),
    ("rows.jsonl", b"<<<<<<< HEAD\n{}\n=======\n", "a file with conflicts of a merge"),
]  # fmt: skip


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize(("name", "content", "text"), FOREIGN)
def test_another_format_is_named(name, content, text, on_error, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    for read in (
        lambda: read_tasks(path, on_error),
        lambda: load_tasks(str(path), on_error),
        lambda: list(read_attempts(path, on_error)),
    ):
        with pytest.raises(TaskError) as caught:
            read()
        assert str(caught.value).startswith(f"{path}: expected JSON Lines (a JSON object a line, in UTF-8), got {text}")
        assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("rows.jsonl.gz", LINES.encode(), "is not a gzip file, though its name ends in .gz; rename it so that its name ends in .jsonl."),
        ("rows.parquet", LINES.encode(), "is not a Parquet file, though its name ends in .parquet; rename it so that its name ends in .jsonl."),
        ("rows.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)[:-30], "is a gzip file that is cut or damaged"),
        ("rows.jsonl", ARRAY.encode()[:-30], "expected a JSON array of rows (Unterminated string"),
        ("rows.jsonl", ARRAY.rstrip("]").encode(), "expected a JSON array of rows (No closing ']'"),
        ("rows.jsonl", ARRAY.encode("latin-1"), None),
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_sentence(name, content, text, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    if text is None:
        assert numbers(path) == [0, 1, 2]  # `json` escapes what is not ASCII
        path.write_bytes(json.dumps(ROWS, ensure_ascii=False).encode("latin-1"))
        text = "expected text in UTF-8, got byte 0xf6 at "
    with pytest.raises(TaskError) as caught:
        read_tasks(path, "skip")
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_a_line_in_another_encoding_names_it(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(
        json.dumps(ROW, ensure_ascii=False).encode() + b"\n" + json.dumps(ROW, ensure_ascii=False).encode("latin-1")
    )
    with pytest.raises(
        RowError,
        match=r"line 2, field '\(the line\)': expected a JSON object in UTF-8, and byte 0xf6 is not \(text in Latin-1 or Windows-1252",
    ):
        read_tasks(path)
    assert len(read_tasks(path, "skip")) == 1


def test_a_folder_is_named(tmp_path):
    with pytest.raises(TaskError, match=r"^Expected a file of rows, got a folder at '.*'; name a file in it\.$"):
        load_tasks(str(tmp_path))
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(
        TaskError,
        match=r"got a folder that `datasets` saved at .*`datasets\.load_from_disk\(\.\.\.\)\.to_json\('rows\.jsonl'\)`\.$",
    ):
        load_tasks(str(tmp_path))


@pytest.mark.parametrize("content", [b"\n" * 2**18, b'{"a": "' + b" " * 2**18, b"[" + b"{}," * 2**16])
def test_a_small_file_that_expands_without_end_is_refused(content, tmp_path, monkeypatch):
    monkeypatch.setattr(user_file, "_LEAST_EXPANDED", 2**16)
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(content, 9))
    most = max(2**16, 200 * path.stat().st_size)
    with pytest.raises(TaskError, match=f"expands to more than {most} bytes, the most for a compressed file of its size"):
        read_tasks(path, "skip")


def test_malformed_lines_are_still_lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("{\n" + LINES + "\n{'a': 1}\nnull\n[1]\n")
    assert [task.id for task in read_tasks(path, "skip")] == ["rows/1", "rows/2", "rows/3"]


def test_random_bytes_are_an_error_and_nothing_else(tmp_path):
    rng, path = random.Random(0), tmp_path / "rows.jsonl"
    for seed in range(200):
        content = bytearray(READABLE[rng.choice(list(READABLE))])
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content[: rng.randrange(len(content))] if seed % 2 else content)
        try:
            list(read_attempts(path, "skip"))
        except TaskError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"test_cases": {"a": "f(1)", "a": "f(2)"}}', "the key 'a' occurs twice"),
        ('{"problem_description": "A", "problem_description": "B"}', "the key 'problem_description' occurs twice"),
        ("// rows of May", "JSON has no comments"),
        ("{'problem_description': 'A'}", "JSON has double quotes; this is Python's notation"),
        ("\x1b[1;39m{", "colours of a terminal"),
        (json.dumps(json.dumps(ROW)), "not a text that holds one (encoded twice)"),
    ],
)
def test_a_line_that_is_nearly_a_row_says_what_it_is(line, reason, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{line}\n{LINES}")
    with pytest.raises(RowError) as caught:
        read_tasks(path)
    assert reason in str(caught.value) and caught.value.line == 1


def test_an_object_of_another_layout_is_named_by_its_keys(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"train": ROWS, "test": []}))
    with pytest.raises(RowError, match="field 'problem_description': expected a non-empty text, got a row of 'train', 'test'"):
        read_tasks(path)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_not_opened(make, tmp_path):
    make(tmp_path / "rows.jsonl")
    with pytest.raises(TaskError, match="got a pipe, a socket or a device at '.*'; write its rows to a file"):
        read_tasks(tmp_path / "rows.jsonl")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that cannot be read, as Linux has one")
def test_a_file_that_cannot_be_read_is_one_sentence():
    for path, reason in (("/proc/self/mem", "Input/output error"), ("a" * 300, "File name too long")):
        with pytest.raises(TaskError, match=f"cannot be read .{reason}.; give another one"):
            read_tasks(path)


def test_endless_blank_lines_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(user_file, "MAX_BLANK_LINES", 10)
    path = tmp_path / "rows.jsonl"
    path.write_text(LINES.replace("\n", "\n" * 10))
    assert len(read_tasks(path)) == 3
    path.write_text(LINES.replace("\n", "\n" * 12))
    with pytest.raises(TaskError, match="more than 10 blank lines one after the other"):
        read_tasks(path, "skip")


def test_maps_and_bytes_of_parquet_are_tables_and_texts(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        name: pa.array([row[name].encode() for row in ROWS], pa.binary()) for name in ("problem_description", "ground_truth")
    }
    tests = [list(row["test_cases"].items()) for row in ROWS]
    columns["test_cases"] = pa.array(tests, pa.map_(pa.string(), pa.string()))
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    path = tmp_path / "rows.jsonl"
    path.write_text(LINES)
    assert [t.hidden.calls for t in read_tasks(tmp_path / "rows.parquet")] == [t.hidden.calls for t in read_tasks(path)]
