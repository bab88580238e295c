"""The process in which one stranger's program runs. It can compute and write to its pipe, and
nothing else.

`rewards.verifier.checks` starts this file as `python -I -S -B` for each program, and sends the job
on standard input: the source, the function, the arguments and the limits, never the results that
are expected. The file imports nothing of the project. Before the source is compiled, a seccomp
filter (linux/seccomp.h, `man 2 seccomp`) leaves the process the system calls that computing needs.
All others fail with EPERM: to open a file, to start a process or a thread, to connect, to signal,
to wait, to set a handler or a timer. Nothing can take the filter away again, and it needs no
privilege, no namespace and no other account.
"""

import ctypes
import json
import os
import re
import resource
import signal
import struct
import sys

# Modules of the standard library that a program may import. Those that its source mentions are
# imported beforehand, as afterwards no file can be opened; `_strptime` and `heapq` are what
# `datetime` and `collections` import when used.
_MODULES = {
    *(
        "abc",
        "bisect",
        "calendar",
        "cmath",
        "collections",
        "copy",
        "dataclasses",
        "datetime",
        "decimal",
        "enum",
    ),
    *(
        "fractions",
        "functools",
        "heapq",
        "itertools",
        "json",
        "math",
        "numbers",
        "operator",
        "random",
        "re",
    ),
    *("statistics", "string", "textwrap", "time", "typing", "unicodedata"),
}
_LATE = {"datetime": "_strptime", "collections": "heapq"}

# AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 of linux/audit.h.
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# The numbers of these calls on the two machines (asm/unistd_64.h, asm-generic/unistd.h).
_ALLOWED = {
    "write": (1, 64),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "brk": (12, 214),
    "madvise": (28, 233),
    "getrandom": (318, 278),
    "clock_gettime": (228, 113),
    "rt_sigreturn": (15, 139),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
_LOAD, _IF_EQUAL, _RETURN = (
    0x20,
    0x15,
    0x06,
)  # linux/bpf_common.h: BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ, BPF_RET
_ALLOW, _KILL, _REFUSE = (
    0x7FFF0000,
    0x80000000,
    0x00050001,
)  # SECCOMP_RET_…; the last with errno 1, EPERM
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h


def main() -> None:
    """Do the job on standard input: write `held` and a line of JSON, or a line that says why it was
    not done."""
    job = json.loads(sys.stdin.buffer.read())
    pipe, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    for name in sorted(_MODULES & set(re.findall(r"\w+", job["source"]))):
        __import__(name)
        __import__(_LATE.get(name, name))
    try:
        _set_limits(job["seconds"], job["memory_mib"])
        _allow_only_computing()
    except OSError as error:
        _send(pipe, str(error))
        os._exit(1)
    _send(pipe, "held\n")
    _send(pipe, _run(job["source"], job["function"], job["arguments"]))
    os._exit(0)  # no atexit, no __del__, no flush


def _set_limits(seconds: float, memory_mib: int) -> None:
    """Limits in processor time, so that a busy machine makes no program wrong, and in MiB of
    address space."""
    cpu = int(seconds) + 2
    limits = {
        resource.RLIMIT_AS: memory_mib << 20,
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_CORE: 0,
    }
    # The filter refuses what these limit as well: the two do not share a mistake.
    limits |= {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: 0, resource.RLIMIT_NPROC: 0}
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process
    signal.setitimer(signal.ITIMER_PROF, seconds)  # RLIMIT_CPU counts whole seconds


def _allow_only_computing() -> None:
    """Raises OSError where the kernel does not take the filter, or takes it and does not follow
    it."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(f"no filter is written for {machine}, only for {' and '.join(_MACHINES)}")
    column = list(_MACHINES).index(machine)
    numbers = [call[column] for call in _ALLOWED.values()]
    # Offsets in struct seccomp_data: the call's number is at 0, the machine at 4. A jump counts the
    # steps it skips.
    steps = [
        (_LOAD, 0, 0, 4),
        (_IF_EQUAL, 1, 0, _MACHINES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
    ]
    steps += [(_IF_EQUAL, len(numbers) - n, 0, number) for n, number in enumerate(numbers)]
    steps += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_NO_NEW_PRIVS, 1, 0, 0, 0), (_SECCOMP, _FILTER, program, 0, 0)):
        words = [
            each if isinstance(each, bytes) else ctypes.c_ulong(each) for each in arguments[1:]
        ]
        if libc.prctl(arguments[0], *words):
            raise OSError(f"the kernel takes no seccomp filter ({os.strerror(ctypes.get_errno())})")
    for forbidden in (
        lambda: os.open("/", os.O_RDONLY),
        lambda: os.kill(0, 0),
    ):  # signal 0 only asks
        try:
            forbidden()
        except PermissionError:
            continue
        raise OSError("the kernel does not follow the seccomp filter")


def _run(source: str, function: str, arguments: list[list]) -> str:
    """`{"results": […], "error": …}`: what the function returned, up to the first call that failed,
    and why."""
    results, error = [], None
    failed = "did not load:"
    try:
        names = {"__name__": "program"}
        exec(compile(source, "program", "exec"), names)
        failed = f"has no function {function}:"
        call, failed = names[function], "raised"
        for each in arguments:
            # Written down at once: what it returns may change with the next call.
            results.append(json.dumps(call(*each), allow_nan=False, separators=(",", ":")))
    except (
        BaseException
    ) as failure:  # SystemExit and KeyboardInterrupt too: it is the program that raises them
        error = f"{failed} {type(failure).__name__}"
    return f'{{"results": [{",".join(results)}], "error": {json.dumps(error)}}}'


def _send(pipe: int, text: str) -> None:
    left = text.encode()
    while left:
        left = left[os.write(pipe, left) :]


if __name__ == "__main__":
    main()
