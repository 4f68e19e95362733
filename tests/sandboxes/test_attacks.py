"""Hostile programs: each ends as expected, harms no file of the host, and leaves a runner that still works."""

import hashlib
import os
import platform
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from sandboxes import Limits, Outcome, Program

#: Of attacks that end by a limit of time, and of all others, which end by themselves however busy the machine is.
LIMITS = Limits(call_timeout_s=1.0, program_timeout_s=3.0, memory_mib=256)
PATIENT = Limits(call_timeout_s=60.0, program_timeout_s=120.0, memory_mib=256)
SECRET = "the-secret-of-the-previous-program"
LEFT = f"json.left_behind = {SECRET!r}\nexpected = [{SECRET!r}]"
EARLIER = {
    True: Program(f"import json\n{LEFT}", ("expected",), PATIENT),
    False: Program(f"exec('imp' + 'ort json')\n{LEFT}", ("expected",), PATIENT),
}
TWICE = "def twice(x):\n    return 2 * x"
#: Behind the attack on the same runner: `import` decides which one that is.
HEALTHY = {
    True: Program(f"import math\n{TWICE}", ("twice(21)",), PATIENT),
    False: Program(TWICE, ("twice(21)",), PATIENT),
}
DENIED, ERROR, MEMORY = Outcome.FORBIDDEN, Outcome.EXCEPTION, Outcome.MEMORY
TIMEOUT, CRASH, OK = Outcome.TIMEOUT, Outcome.CRASH, Outcome.OK
TOO_LARGE, NO_VALUE = Outcome.OUTPUT_LIMIT, Outcome.NOT_SERIALISABLE

PRELUDE = f"""
import array, ctypes, fcntl, gc, json, os, re, resource, signal, socket, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
CANARY = {{canary!r}}
PROJECT = {str(Path(__file__).resolve().parents[2])!r}
SITE = {os.path.dirname(os.path.dirname(pytest.__file__))!r}

def syscall(*arguments):
    result = libc.syscall(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def frame(outcome, payload, length=None):
    os.write(3, struct.pack("!BdI", outcome, 0.0, len(payload) if length is None else length) + payload)
"""


class Attack(NamedTuple):
    """A program, of which `run()` is called, and what may become of it."""

    source: str
    expected: tuple[Outcome, ...]
    value: object = None


def one(statement, *expected, value=None):
    """An attack of one statement."""
    return Attack(f"def run():\n    {statement}", expected, value)


def body(source, *expected, value=None):
    """An attack that defines `run` itself."""
    return Attack(source, expected, value)


TIME = {
    "infinite loop": one("while True: pass", TIMEOUT),
    "sleep": one("time.sleep(60)", TIMEOUT),
    "spin in C": one("return 10 ** (10 ** 8) % 7", TIMEOUT),
    "regular expression": one("return re.match('(a+)+$', 'a' * 40 + 'b')", TIMEOUT),
    "loop in a finaliser": body("class A:\n def __del__(self):\n  while True: pass\ndef run():\n A()\n return 1", TIMEOUT),
    "catch everything": one(
        "while True:\n        try:\n            while True: pass\n        except BaseException: pass", TIMEOUT
    ),
    "block all signals": one("signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64)); time.sleep(60)", TIMEOUT),
    "ignore all signals": body(
        "def run():\n for s in set(range(1, 64)) - {9, 19, 32, 33}:\n  signal.signal(s, signal.SIG_IGN)\n while True: pass",
        TIMEOUT,
    ),
    "loop at import": body("while True: pass", TIMEOUT),
    "slow to compile": Attack("def run(): return " + "-" * 100_000 + "1", (ERROR, MEMORY, CRASH, TIMEOUT)),
    "thread left behind": body(
        "def spin():\n while True: pass\ndef run():\n threading.Thread(target=spin, daemon=True).start()\n return 1",
        OK,
        value=1,
    ),
    "never writes a frame": one("frame(0, b'12', 1000); time.sleep(60)", TIMEOUT),
    "frame in drops": one("frame(0, b'', 1000)\n    while True:\n        os.write(3, b'1'); time.sleep(0.05)", TIMEOUT),
}
MEMORY_ATTACKS = {
    "one big list": one("return len([0] * 10**12)", MEMORY),
    "many lists": one("x = []\n    while True: x.append([0] * 100_000)", MEMORY, TIMEOUT),
    "many small objects": one("x = []\n    while True: x.append(object())", MEMORY, TIMEOUT),
    "small objects in a global": body("x = []\ndef run():\n while True: x.append([])", MEMORY, TIMEOUT),
    "doubling text": one("s = 'x'\n    while True: s += s", MEMORY, TIMEOUT),
    "map memory": body(
        "import mmap\ndef run():\n return len([mmap.mmap(-1, 64 << 20) for _ in range(64)])", ERROR, MEMORY, DENIED
    ),
    "raise the limit": one("resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", ERROR),
    "thread bomb": one(
        "while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", ERROR, MEMORY, TIMEOUT
    ),
}
PROCESSES = {
    "fork": one("return os.fork()", DENIED),
    "fork bomb": one("while True: os.fork()", DENIED),
    "vfork": one("syscall(58)", DENIED),
    "clone a process": one("syscall(56, 17, 0, 0, 0, 0)", DENIED),
    "clone3": one("syscall(435, ctypes.create_string_buffer(88), 88)", ERROR),
    "subprocess": one("return subprocess.check_output(['/bin/id'])", DENIED),
    "shell": one("return os.system('id') != 0", OK, value=True),
    "exec": one("os.execv('/bin/sh', ['sh'])", DENIED),
    "exec by file descriptor": one("syscall(322, 3, b'', 0, 0, 0x1000)", DENIED),
    "posix_spawn": one("os.posix_spawn('/bin/sh', ['sh'], {})", DENIED),
    "multiprocessing": body("import multiprocessing\ndef run():\n multiprocessing.Process(target=print).start()", DENIED),
}
PROTOCOL = {
    "garbage frames": one("os.write(3, b'x' * 5000); time.sleep(60)", CRASH),
    "length of 4 GB": one("frame(0, b'1', 2**32 - 1); time.sleep(60)", CRASH),
    "longer than a value may be": one("frame(0, b'1', 2**20 + 1); time.sleep(60)", CRASH),
    "unknown outcome": one("frame(99, b'')", CRASH),
    "ready twice": one("frame(255, b'')", CRASH),
    "deep frame": one("frame(0, b'[' * 100_000); time.sleep(60)", Outcome.OUTPUT_LIMIT),
    "deep value": one("frame(0, b'[' * 500 + b']' * 500); time.sleep(60)", Outcome.OUTPUT_LIMIT),
    "many digits": one("frame(0, b'1' * 100_000); time.sleep(60)", CRASH),
    "not a number": one("frame(0, b'NaN'); time.sleep(60)", CRASH),
    "not text": one("frame(0, bytes(range(128, 256))); time.sleep(60)", CRASH),
    "name that is not text": one("frame(1, bytes(range(128, 256))); time.sleep(60)", ERROR),
    "forged value": one("frame(0, b'\"forged\"'); time.sleep(60)", OK, value="forged"),
    "write to every descriptor": body(
        "def run():\n for fd in range(64):\n  try: os.write(fd, b'x' * 100)\n  except OSError: pass", CRASH
    ),
    "close every descriptor": one("os.closerange(0, 64)", CRASH),
    "find a way to the host": body(
        "def run():\n found = []\n for fd in range(4, 64):\n  try: os.fstat(fd); found.append(fd)\n  except OSError: pass\n return found",
        OK,
        value=[],
    ),
    "patch json": one(
        "json.dumps = json.JSONEncoder.encode = json.encoder.JSONEncoder.encode = lambda *a, **k: '1'; return 2", OK, CRASH
    ),
    "patch builtins": body(
        "import builtins\ndef run():\n builtins.type = builtins.len = builtins.next = None\n return [1]", OK, CRASH
    ),
    "patch os.write": one("os.write = lambda fd, data: len(data); return 1", CRASH),
    "patch struct": body("from sandboxes import frames\ndef run():\n frames.RESULT = None\n return 1", CRASH),
    "patch the encoder": body(
        "from sandboxes.runner import encode\ndef run():\n encode.to_json = lambda *a: b'[['\n return 1", CRASH
    ),
}
SIGNALS = {
    "kill the runner": one("os.kill(os.getppid(), 9)", DENIED),
    "stop the runner": one("os.kill(os.getppid(), signal.SIGSTOP)", DENIED),
    "kill process 1": one("os.kill(1, 9)", DENIED),
    "kill all": one("os.kill(-1, 9)", DENIED),
    "kill the group": one("os.killpg(0, 9)", DENIED),
    "tgkill the runner": one("syscall(234, os.getppid(), os.getppid(), 9)", DENIED),
    "pidfd of the runner": one("os.pidfd_open(os.getppid())", DENIED),
    "signal by F_SETOWN": one("r, w = os.pipe(); fcntl.fcntl(r, 8, os.getppid())", DENIED),
    "signal by F_SETSIG": one("r, w = os.pipe(); fcntl.fcntl(r, 10, 9)", DENIED),
    "signal by FIOASYNC": one("r, w = os.pipe(); fcntl.ioctl(r, 0x5452, struct.pack('i', 1))", DENIED),
    "limit the runner": one("resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))", DENIED),
    "slow the runner": one("os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)", DENIED),
    "pin the runner": one("os.sched_setaffinity(os.getppid(), {0})", DENIED),
    "outlive the runner": one("syscall(157, 1, 0, 0, 0, 0)", DENIED),
}
READING = {
    "ptrace": one("syscall(101, 16, os.getppid(), 0, 0)", DENIED),
    "process_vm_readv": one("syscall(310, os.getppid(), 0, 0, 0, 0, 0)", DENIED),
    "memory of the runner": one("return open('/proc/%d/mem' % os.getppid(), 'rb').read(1)", DENIED),
    "maps of the runner": one("return open('/proc/%d/maps' % os.getppid()).read()", DENIED),
    "files of the runner": one("return os.listdir('/proc/%d/fd' % os.getppid())", DENIED),
    "environment of process 1": one("return open('/proc/1/environ').read()", DENIED),
    "own memory through /proc": one("return open('/proc/self/mem', 'rb+')", DENIED),
    "/etc/passwd": one("return open('/etc/passwd').read()", DENIED),
    "/etc/shadow": one("return open('/etc/shadow').read()", DENIED),
    "a file of the host": one("return open(CANARY + '/secret').read()", DENIED),
    "directory of the host": one("return os.listdir(CANARY)", DENIED),
    "another directory of the host": one("return os.listdir('/var')", DENIED),
    "the project": one("return open(PROJECT + '/sandboxes/embedded.py').read()", DENIED),
    "site-packages": one("return open(SITE + '/pytest/__init__.py').read()", DENIED),
    "import from site-packages": body("def run():\n sys.path.append(SITE)\n import pytest", ERROR, DENIED),
    "import the host's code": body("def run():\n sys.path.append(PROJECT)\n import sandboxes.embedded", ERROR),
    "Docker socket": one("return open('/var/run/docker.sock').read()", DENIED, ERROR),
    "a device": one("return open('/dev/sda', 'rb').read(1)", DENIED),
    "environment": one(
        "return dict(os.environ)", OK, value={"dict": [["LANG", "C.UTF-8"], ["PYTHONHASHSEED", "0"], ["TZ", "UTC"]]}
    ),
    "arguments": one("return sys.argv", OK, value=["-c"]),
    "standard input": one("return sys.stdin.read() + os.read(0, 10).decode()", OK, value=""),
    "objects of earlier programs": one(
        f"return any(''.join({list(SECRET)}) in str(o) for o in gc.get_objects())", OK, value=False
    ),
    "modules of earlier programs": one("return hasattr(json, 'left_behind')", OK, value=False),
    "frames of the runner": body(
        "def run():\n f, seen = sys._getframe(), []\n while f:\n  seen += [k for k in f.f_locals if 'expect' in k]; f = f.f_back\n return seen",
        OK,
        value=[],
    ),
}
LYING = {
    "equal to everything": body("class A:\n __eq__ = lambda s, o: True\ndef run(): return A()", NO_VALUE),
    "list that lies": body(
        "class A(list):\n __eq__ = lambda s, o: True\n __iter__ = lambda s: iter([1])\ndef run(): return A([7])", OK, value=[7]
    ),
    "int that lies": body(
        "class A(int):\n __eq__ = lambda s, o: True\n __int__ = lambda s: 1\ndef run(): return A(7)", OK, value=7
    ),
    "str that lies": body("class A(str):\n __str__ = lambda s: 'x'\ndef run(): return A('y')", OK, value="y"),
    "false class": body("class A:\n __class__ = int\ndef run(): return A()", NO_VALUE),
    "class of a built-in name": body("class A: pass\nA.__name__ = 'int'\ndef run(): return A", NO_VALUE),
    "hostile hash of a class": body(
        "class M(type):\n __hash__ = lambda s: hash(int)\n __eq__ = lambda s, o: True\nclass A(metaclass=M): pass\ndef run(): return A()",
        ERROR,
    ),
    "hostile exception": body(
        "class E(Exception):\n def __str__(s): while_true()\n __repr__ = __str__\ndef run(): raise E", ERROR
    ),
    "hostile name": body(
        "class M(type):\n __name__ = property(lambda s: 1 / 0)\nclass E(Exception, metaclass=M): pass\ndef run(): raise E",
        ERROR,
    ),
    "long name": body("E = type('E' * 10**6, (Exception,), {})\ndef run(): raise E", ERROR),
    "odd name": body("E = type('\\ud800\\u1234', (Exception,), {})\ndef run(): raise E", ERROR),
    "pretend that a wall was hit": one("raise PermissionError(1, 'really')", DENIED),
}
ENDS = {
    "sys.exit": one("sys.exit(0)", ERROR),
    "os._exit": one("os._exit(0)", CRASH),
    "atexit": body("import atexit\ndef run():\n atexit.register(print, 'late')\n return 1", OK, value=1),
    "abort": one("os.abort()", CRASH),
    "segmentation fault": one("ctypes.string_at(0)", CRASH),
    "deep recursion": body("def run(n=0):\n sys.setrecursionlimit(10**9)\n return run(n + 1)", CRASH, MEMORY, TIMEOUT),
    "deep recursion in C": one("x = []\n    for _ in range(10**6): x = [x]\n    return repr(x)", ERROR, TIMEOUT),
    "deep source": Attack("def run(): return " + "(" * 10_000 + ")" * 10_000, (ERROR, MEMORY)),
    "hang at exit": body("class A:\n def __del__(s): time.sleep(60)\nkeep = A()\ndef run(): return 1", OK, value=1),
}
NETWORK = {
    "TCP": one("socket.create_connection(('127.0.0.1', 80))", DENIED),
    "UDP": one("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))", DENIED),
    "DNS": one("socket.getaddrinfo('example.com', 80)", ERROR),
    "unix socket": one("socket.socket(socket.AF_UNIX).connect('\\0abstract')", DENIED),
    "datagram pair": one("socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)", DENIED),
    "raw socket": one("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", DENIED),
    "netlink": one("socket.socket(16, socket.SOCK_RAW, 0)", DENIED),
}
WRITING = {
    "write": one("open(CANARY + '/new', 'w').write('x')", DENIED),
    "write to /tmp": one("open('/tmp/sandbox-attack', 'w').write('x')", DENIED),
    "fill the disk": one("open('/dev/shm/sandbox-attack', 'wb').write(bytes(10**8))", DENIED),
    "overwrite": one("open(CANARY + '/secret', 'r+').write('x')", DENIED, ERROR),
    "append to the library": one("open(os.__file__, 'a').write('x')", DENIED),
    "truncate the library": one("os.open(os.__file__, os.O_RDONLY | os.O_TRUNC)", DENIED),
    "truncate": one("os.truncate(CANARY + '/secret', 0)", DENIED),
    "unlink": one("os.unlink(CANARY + '/secret')", DENIED),
    "rename": one("os.rename(CANARY + '/secret', CANARY + '/other')", DENIED),
    "mkdir": one("os.mkdir(CANARY + '/new')", DENIED),
    "symlink": one("os.symlink('/etc/passwd', CANARY + '/new')", DENIED),
    "link": one("os.link(CANARY + '/secret', CANARY + '/new')", DENIED),
    "chmod": one("os.chmod(CANARY + '/secret', 0)", DENIED),
    "chown": one("os.chown(CANARY + '/secret', 1, 1)", DENIED),
    "change times": one("os.utime(CANARY + '/secret', (0, 0))", DENIED),
    "extended attribute": one("os.setxattr(CANARY + '/secret', 'user.x', b'x')", DENIED),
    "named pipe": one("os.mkfifo(CANARY + '/new')", DENIED),
    "sqlite": body("import sqlite3\ndef run():\n sqlite3.connect(CANARY + '/new').execute('create table t (x)')", ERROR),
}
KERNEL = {
    "user namespace": one("syscall(272, 0x10000000)", DENIED),
    "mount": one("syscall(165, b'none', b'/', b'tmpfs', 0, 0)", DENIED),
    "chroot": one("os.chroot('/')", DENIED),
    "io_uring": one("syscall(425, 8, ctypes.create_string_buffer(120))", DENIED),
    "bpf": one("syscall(321, 0, 0, 0)", DENIED),
    "perf": one("syscall(298, 0, 0, -1, -1, 0)", DENIED),
    "userfaultfd": one("syscall(323, 0)", DENIED),
    "memfd": one("os.memfd_create('x')", DENIED),
    "keyring": one("syscall(250, 0, -3, 1)", DENIED),
    "shared memory": one("syscall(29, 1, 4096, 0o1777)", DENIED),
    "message queue": one("syscall(68, 1, 0o1777)", DENIED),
    "undo seccomp": one("syscall(317, 0, 0, 0)", DENIED),
    "set user id": one("os.setuid(0)", DENIED),
    "32-bit system call table": one("syscall(0x40000000 + 39)", CRASH),
}
VALUES = {
    "nested": body("def run():\n x = 0\n for _ in range(10**5): x = [x]\n return x", TOO_LARGE),
    "contains itself": one("x = []; x.append(x); return x", TOO_LARGE),
    "endless by sharing": one("x = [0]\n    for _ in range(43): x = [x, x]\n    return x", TOO_LARGE),
    "long text": one("return 'x' * (50 << 20)", TOO_LARGE),
    "text that grows in JSON": one("return '\\u1234' * (1 << 19)", TOO_LARGE),
    "big integer": one("return 1 << 10**7", TOO_LARGE),
    "list that grows while read": Attack(
        "x = [0]\ndef grow():\n while True: x.append(0)\ndef run():\n threading.Thread(target=grow, daemon=True).start()\n return x",
        (TOO_LARGE, MEMORY, TIMEOUT, OK),
    ),
    "generator": one("return (x for x in [1])", NO_VALUE),
    "hidden object": one("return [1, {2: (3, object())}]", NO_VALUE),
    "infinite output": one("while True: print('x' * 1000)", TIMEOUT),
    "infinite errors": one("while True: os.write(2, b'x' * 1000)", TIMEOUT),
}
OURS = {
    "lie about the time": one("os.write(3, struct.pack('!BdI', 0, float('nan'), 1) + b'9'); time.sleep(60)", OK, value=9),
    "stay when all is done": body("def stay(code): time.sleep(60)\ndef run():\n os._exit = stay\n return 1", OK, value=1),
    "half a frame": one("os.write(3, struct.pack('!BdI', 0, 0.0, 9)[:5]); os._exit(0)", CRASH),
    "close the result pipe": one("os.close(3); time.sleep(60)", CRASH),
    "close the output": one("os.close(1); os.close(2); time.sleep(0.1); return 1", OK, value=1),
    "results for everybody": one("os.write(3, (struct.pack('!BdI', 0, 0.0, 1) + b'9') * 2000)", OK),
    "more results than a pipe holds": one("frame(0, b'9')\n    while True: frame(0, b'7')", OK, value=9),
    "read what waits for the runner": body(
        "def run():\n found = []\n for fd in range(4, 4096):\n  try: found.append(os.read(fd, 10))\n  except OSError: pass\n return found", OK, value=[]),
    "machine code": body(
        "import mmap\ndef run():\n code = mmap.mmap(-1, 4096, prot=7)\n code.write(b'\\xb8\\x39\\0\\0\\0\\x0f\\x05\\xc3')\n"
        " at = ctypes.addressof(ctypes.c_char.from_buffer(code))\n return ctypes.CFUNCTYPE(ctypes.c_int)(at)()", OK, value=-1),
    "another filter": one("from sandboxes.runner import walls; walls._Filter(b'\\x06' + bytes(7)).set()", DENIED),
    "another ruleset": one("syscall(444, bytes(24), 24, 0)", DENIED),
    "call the runner's own code": one("from sandboxes.runner import program_process; program_process.Child(0, 3)", DENIED),
    "fake library": body(
        "import types\nsys.modules['decimal'] = types.SimpleNamespace(Decimal=object)\ndef run(): return object()", ERROR, NO_VALUE),
    "float that lies": body("class A(float):\n __repr__ = lambda s: 'true'\ndef run(): return A(7)", OK, value=7.0),
    "text that lies": body("class A(str):\n translate = lambda s, t: '\", 1'\ndef run(): return A('y')", OK, value="y"),
    "fraction that lies": body(
        "import fractions\nclass A(fractions.Fraction):\n _numerator = property(lambda s: '1')\ndef run(): return A(1, 2)", ERROR),
    "moment that lies": body(
        "import datetime\nclass Z(datetime.tzinfo):\n def utcoffset(s, d):\n  while True: pass\n"
        "def run(): return datetime.datetime(2000, 1, 1, tzinfo=Z())", TIMEOUT),
    "order of bases that lies": body(
        "class M(type):\n def mro(c): return [c, Exception, BaseException, object]\nclass A(Exception, metaclass=M): pass\n"
        "def run(): raise A", ERROR),
    "claim a limit": one("from sandboxes.runner import encode; raise encode.TooLarge", TOO_LARGE),
    "claim that memory ran out": one("raise type('A', (MemoryError,), {})", MEMORY),
    "number of an error that is none": one("raise OSError([1], 'x')", ERROR),
    "exceptions in a circle": body(
        "def run():\n a, b = KeyError(1), KeyError(2)\n a.__cause__, b.__cause__ = b, a\n raise a", ERROR
    ),
    "alarm for later": one("signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(60)", CRASH),
    "lock memory": one("syscall(151, 3)", DENIED),
    "personality": one("syscall(135, 0x40000)", DENIED),
    "timer that signals": one("syscall(222, 0, 0, ctypes.create_string_buffer(8))", DENIED),
    "watch files": one("syscall(294, 0)", DENIED),
    "steal a descriptor": one("syscall(438, 3, 0, 0)", DENIED),
    "open by handle": one("syscall(304, 3, ctypes.create_string_buffer(64), 0)", DENIED),
    "signal by F_NOTIFY": one("fcntl.fcntl(0, 1026, 1)", DENIED),
    "priority of disks": one("syscall(251, 1, 0, 0)", DENIED),
    "load a module": one("syscall(175, 0, 0, b'')", DENIED),
    "restart the machine": one("syscall(169, 0xfee1dead, 672274793, 0x1234567, 0)", DENIED),
}  # fmt: skip
GROUPS = [TIME, MEMORY_ATTACKS, PROCESSES, PROTOCOL, SIGNALS, READING, LYING, ENDS, NETWORK, WRITING, KERNEL, VALUES, OURS]
ATTACKS = [pytest.param(name, attack, id=name) for group in GROUPS for name, attack in group.items()]


@pytest.fixture(scope="module")
def canary(tmp_path_factory):
    directory = tmp_path_factory.mktemp("canary")
    (directory / "secret").write_text("untouched")
    return directory


def fingerprint(directory):
    """All that an attack could change: the library, the canary and the places that anyone may write to."""
    strange = [path for path in ("/tmp/sandbox-attack", "/dev/shm/sandbox-attack") if os.path.exists(path)]
    library = hashlib.sha256(Path(os.__file__).read_bytes()).hexdigest()
    files = [(path.name, path.stat().st_mode, path.stat().st_mtime, path.read_text()) for path in sorted(directory.iterdir())]
    return library, files, strange


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "hidden"])
@pytest.mark.parametrize(("name", "attack"), ATTACKS)
def test_attack(name, attack, is_open, sandbox, canary):
    """Each attack as it is, and hidden, so that it is given to a runner for programs that import nothing."""
    if ("syscall(" in attack.source or name == "machine code") and platform.machine() != "x86_64":
        pytest.skip("The numbers of the system calls are those of x86_64.")
    before = fingerprint(canary)
    source = PRELUDE.replace("{canary!r}", repr(str(canary))) + attack.source
    if not is_open:
        source = f"exec(bytes.fromhex({source.encode().hex()!r}).decode(), globals())"
    program = Program(source, ("run()",), LIMITS if TIMEOUT in attack.expected else PATIENT)
    started = time.process_time()
    _, result, after = sandbox.run([EARLIER[is_open], program, HEALTHY[is_open]])
    (call,) = result.calls
    denied_by_absence = DENIED in attack.expected and call.error in ("FileNotFoundError", "NotADirectoryError")
    assert call.outcome in attack.expected or denied_by_absence, (call, result.stderr)
    if call.outcome is OK and attack.value is not None:
        assert sorted_pairs(call.value) == attack.value
    assert len(call.error) <= 80 and len(result.stdout) <= LIMITS.output_chars and len(result.stderr) <= LIMITS.output_chars
    assert after.calls[0].value == 42, "the runner no longer works"
    assert time.process_time() - started < 5.0, "the host is kept busy"
    assert fingerprint(canary) == before


def sorted_pairs(wire):
    return {"dict": sorted(wire["dict"])} if isinstance(wire, dict) and "dict" in wire else wire


def test_a_forged_frame_only_answers_the_forgers_own_calls(sandbox):
    source = "import os, struct\ndef run(x):\n    os.write(3, struct.pack('!BdI', 0, 0.0, 1) + b'9')\n    return x"
    forged, honest = sandbox.run([Program(source, ("run(1)", "run(2)"), PATIENT), HEALTHY[True]])
    assert {call.value for call in forged.calls} <= {9, 1, 2}
    assert [call.value for call in honest.calls] == [42]
