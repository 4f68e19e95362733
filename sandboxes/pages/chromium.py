"""Find Chromium, restrict it, and start it in isolation.

Playwright starts an executable and communicates over two pipes (3 and 4). So isolation is a script that starts the browser: in
separate namespaces by bubblewrap (here), or in a container.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from pathlib import Path

from sandboxes.interpreter import BUBBLEWRAP
from sandboxes.prerequisites import require_system
from sandboxes.sandbox import SandboxError

EXECUTABLE_VARIABLE = "COLBENCH_CHROMIUM"
#: Tag of the image that pages are rendered in, for the Docker backend.
BROWSER_IMAGE = "colbench-gym/browser:chromium"
#: Real binaries first: those of Debian in /usr/bin are scripts, which need a shell and files in the home directory.
_PATHS = (
    "/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
)  # fmt: skip
_NAMES = ("chromium-headless-shell", "headless_shell", "chrome-headless-shell")
_PLAYWRIGHT = (
    "chromium_headless_shell-*/*/headless_shell",
    "chromium_headless_shell-*/*/chrome-headless-shell",
    "chromium-*/*/chrome",
)
#: Maximal private memory of each of the browser's processes, in KiB. A page that needs more crashes its own process.
MEMORY_KIB = 2 * 1024 * 1024
#: Files of the machine that a browser may read, if they exist.
_READABLE = (
    "/usr",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ssl/certs",
    "/etc/chromium",
    "/var/cache/fontconfig",
    "/sys/dev",
    "/sys/devices",
)
_LINKED = ("/bin", "/sbin", "/lib", "/lib64", "/lib32")
_NOBODY = "65534"

#: No network even without isolation, no persistent state, the same pixels everywhere.
FLAGS = (
    "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--metrics-recording-only", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb",
    "--font-render-hinting=none", "--disable-lcd-text", "--disable-remote-fonts", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=<-loopback>", "--js-flags=--jitless",
)  # fmt: skip


def find_chromium() -> str:
    """Path of the browser.

    Raises:
        SandboxError: If there is none. The message says how to get one.
    """
    if named := os.environ.get(EXECUTABLE_VARIABLE):
        if os.access(named, os.X_OK):
            return os.path.realpath(named)
        raise SandboxError(f"${EXECUTABLE_VARIABLE} names no program: {named!r}.")
    browsers = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    downloaded = [str(path) for pattern in _PLAYWRIGHT for path in sorted(browsers.glob(pattern), reverse=True)]
    for path in (*_PATHS, *filter(None, map(shutil.which, _NAMES)), *downloaded):
        if os.access(path, os.X_OK):
            return os.path.realpath(path)
    raise SandboxError(
        "No Chromium was found. Install one (`apt-get install chromium-headless-shell`, or `playwright install --only-shell chromium`), or "
        f"name its program in ${EXECUTABLE_VARIABLE}."
    )


def write_embedded_launcher(folder: Path) -> Path:
    """Write a script that starts the browser in separate namespaces, without network, and with libraries and fonts as its only files.

    Raises:
        SandboxError: If there is no browser, or no bubblewrap to isolate it.
    """
    require_system("embedded")
    if not os.access(BUBBLEWRAP, os.X_OK):
        raise SandboxError(
            f"Pages are rendered behind bubblewrap, which is not at {BUBBLEWRAP}: `apt-get install bubblewrap`, or take "
            'the Docker backend (`sandbox="docker"`).'
        )
    return write_launcher(folder, [*_walls(find_chromium())])


def write_unsafe_launcher(folder: Path) -> Path:
    """Write a script that starts the browser without any isolation: only for pages that you wrote yourself."""
    require_system("unsafe-no-isolation")
    return write_launcher(folder, [find_chromium(), *(["--no-sandbox"] if os.geteuid() == 0 else [])])


def write_launcher(folder: Path, command: list[str]) -> Path:
    """Write a script that executes a command, to which Playwright adds the browser's arguments."""
    path = folder / "browser"
    path.write_text(f'#!/bin/sh\nulimit -d {MEMORY_KIB}\nulimit -c 0\nexec {shlex.join(command)} "$@"\n')
    return make_executable(path)


def make_executable(path: Path) -> Path:
    """Let the owner of a file run it."""
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _walls(browser: str) -> list[str]:
    command = [BUBBLEWRAP, "--unshare-all", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv"]
    command += ["--setenv", "HOME", "/tmp", "--setenv", "PATH", "/usr/bin:/bin", "--setenv", "LANG", "C.UTF-8"]
    command += ["--uid", _NOBODY, "--gid", _NOBODY, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for path in _LINKED:
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            command += ["--ro-bind", path, path]
    for path in (*_READABLE, os.path.dirname(browser)):
        if os.path.exists(path):
            command += ["--ro-bind", path, path]
    return [*command, "--chdir", "/tmp", "--", browser]
