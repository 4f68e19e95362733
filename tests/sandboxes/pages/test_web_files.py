"""What pages get for the addresses that they ask for."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import tarfile

import pytest

from sandboxes import SandboxError
from sandboxes.pages import web_files
from sandboxes.pages.web_files import FOLDER_VARIABLE, TAILWIND, NpmFile, WebFiles


@pytest.fixture
def files(tmp_path):
    (tmp_path / TAILWIND.name).write_text(".a{top:0}.b{top:1px}")
    return WebFiles(tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css", "https://unpkg.com/tailwindcss@^2/dist/tailwind.min.css",
        "https://cdnjs.cloudflare.com/ajax/libs/tailwindcss/2.0.1/tailwind.css",
    ],
)  # fmt: skip
def test_tailwind_two_is_answered_from_disk(files, url):
    assert files.answer(url, '<p class="a">').body == b".a{top:0}"
    assert files.answer(url, '<p class="a">', has_scripts=True).body == b".a{top:0}.b{top:1px}"


def test_the_sheet_is_parsed_once_in_a_process_and_again_where_the_file_has_changed(files, tmp_path, monkeypatch):
    parsed, original = [], web_files.StyleSheet
    monkeypatch.setattr(web_files, "StyleSheet", lambda css: parsed.append(css) or original(css))
    url, page = "https://unpkg.com/tailwindcss@^2/dist/tailwind.min.css", '<p class="a">'
    assert [of.answer(url, page).body for of in (files, WebFiles(tmp_path))] == [b".a{top:0}"] * 2
    path = tmp_path / TAILWIND.name
    path.write_text(".a{top:2px}")
    os.utime(path, ns=(1, 1))
    assert WebFiles(tmp_path).answer(url, page).body == b".a{top:2px}" and len(parsed) == 2


@pytest.mark.parametrize(
    "url",
    [
        "https://cdn.tailwindcss.com",
        "https://x.org/tailwindcss@3.4.1/tailwind.min.css",
        "http://picsum.photos/",
        "https://x.org/300/200",
    ],
)
def test_nothing_else_is(files, url):
    assert files.answer(url, "") is None


def _archive(content):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("package/a.css")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_a_file_is_fetched_once_and_checked(tmp_path, monkeypatch):
    archive = _archive(b".a{top:0}")
    asked = []
    monkeypatch.setattr(web_files, "_fetch", lambda specifier: asked.append(specifier) or archive)
    right = NpmFile("p", "1", base64.b64encode(hashlib.sha512(archive).digest()).decode(), "package/a.css")
    files = WebFiles(tmp_path / "new")
    assert files.path(right).read_bytes() == files.path(right).read_bytes() == b".a{top:0}"
    assert asked == ["p@1"]
    with pytest.raises(SandboxError, match="is not what it was"):
        files.path(NpmFile("p", "2", "wrong", "package/a.css"))


def test_without_a_network_it_is_said_where_the_file_belongs(tmp_path, monkeypatch):
    def fail(specifier):
        raise OSError("no network")

    monkeypatch.setattr(web_files, "_fetch", fail)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(
        SandboxError, match=rf"no network\. Put `package/dist/tailwind\.min\.css` of .* at {tmp_path}.*\$COLBENCH_WEB_FILES"
    ):
        WebFiles().path(TAILWIND)
