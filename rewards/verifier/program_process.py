"""The process in which the program of a response runs. It can compute and write to its pipe, and
nothing else.

`checks` starts this file as `python -I -S -B` for each program, and sends the job on standard
input: the source, the function, the arguments, the limits and what is allowed, never the expected
results. The file imports nothing of the project. Before the source is compiled, a seccomp filter
(linux/seccomp.h, `man 2 seccomp`) leaves the process the system calls that computing needs. All
others fail with EPERM: to open a file, to start a process or a thread, to connect, to signal, to
wait, to set a handler or a timer. Nothing can take the filter away again, and it needs no
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

# AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 of linux/audit.h.
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# linux/bpf_common.h
_LOAD = 0x20  # BPF_LD|BPF_W|BPF_ABS
_IF_EQUAL = 0x15  # BPF_JMP|BPF_JEQ
_RETURN = 0x06  # BPF_RET
# linux/seccomp.h: SECCOMP_RET_…
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_REFUSE = 0x00050001  # with errno 1, EPERM
# linux/prctl.h: PR_…
_NO_NEW_PRIVS = 38
_SECCOMP = 22
_FILTER = 2  # SECCOMP_MODE_FILTER


def main() -> None:
    """Do the job on standard input: write `held` and a line of JSON, or a line with the reason why
    it was not done."""
    job = json.loads(sys.stdin.buffer.read())
    pipe = os.dup(1)
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null_device, descriptor)
    os.close(null_device)
    # Before the filter is set: afterwards no file can be opened.
    for name in sorted(job["modules"].keys() & set(re.findall(r"\w+", job["source"]))):
        __import__(name)
        __import__(job["modules"][name])
    try:
        _set_limits(job["seconds"], job["memory_mib"])
        _allow_only(job["calls"])
    except OSError as error:
        _send(pipe, str(error))
        os._exit(1)
    _send(pipe, "held\n")
    _send(pipe, _run(job["source"], job["function"], job["arguments"]))
    os._exit(0)  # no atexit, no __del__, no flush


def _set_limits(seconds: float, memory_mib: int) -> None:
    """Limit the processor time, so that a busy machine makes no program false, and the address
    space."""
    limits = {
        resource.RLIMIT_AS: memory_mib << 20,
        resource.RLIMIT_CPU: int(seconds) + 2,
        resource.RLIMIT_CORE: 0,
        # The filter refuses these as well: the two do not share a mistake.
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 0,
        resource.RLIMIT_NPROC: 0,
    }
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process
    signal.setitimer(signal.ITIMER_PROF, seconds)  # RLIMIT_CPU counts whole seconds


def _allow_only(calls: list[list[str]]) -> None:
    """Set the filter, for calls with their numbers on each machine.

    Raises:
        OSError: the kernel does not take the filter, or takes it and does not follow it.
    """
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(f"no filter is written for {machine}, only for {' and '.join(_MACHINES)}")
    column = 1 + list(_MACHINES).index(machine)
    numbers = [int(call[column]) for call in calls]
    # Offsets in struct seccomp_data: the call's number is at 0, the machine at 4. A jump has the
    # number of steps that it skips.
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
    number = ctypes.c_ulong
    failed = libc.prctl(_NO_NEW_PRIVS, number(1), number(0), number(0), number(0))
    if failed or libc.prctl(_SECCOMP, number(_FILTER), program, number(0), number(0)):
        raise OSError(f"the kernel takes no seccomp filter ({os.strerror(ctypes.get_errno())})")
    # Signal 0 only checks that a signal is allowed.
    for forbidden_call in (lambda: os.open("/", os.O_RDONLY), lambda: os.kill(0, 0)):
        try:
            forbidden_call()
        except PermissionError:
            continue
        raise OSError("the kernel does not follow the seccomp filter")


def _run(source: str, function: str, arguments: list[list]) -> str:
    """Return `{"results": […], "error": …}`: the results up to the first call that failed, and the
    failure."""
    results = []
    error = None
    failure = "did not load:"
    try:
        names = {"__name__": "program"}
        exec(compile(source, "program", "exec"), names)
        failure = f"has no function {function}:"
        call = names[function]
        failure = "raised"
        for values in arguments:
            # A result is written at once: the next call may change it.
            results.append(json.dumps(call(*values), allow_nan=False, separators=(",", ":")))
    # SystemExit and KeyboardInterrupt too: it is the program that raises them.
    except BaseException as exception:
        error = f"{failure} {type(exception).__name__}"
    return f'{{"results": [{",".join(results)}], "error": {json.dumps(error)}}}'


def _send(pipe: int, text: str) -> None:
    unsent = text.encode()
    while unsent:
        unsent = unsent[os.write(pipe, unsent) :]


if __name__ == "__main__":
    main()
