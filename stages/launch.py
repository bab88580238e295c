"""`accelerate launch` that ends as the stage did: with its exit code, 75 for one that was stopped, saved and goes on.

    python -m stages.launch --config_file accelerate_configs/ddp.yaml -m stages.grpo recipes/x.yaml

accelerate itself ends with 1 and a stack trace, whatever its processes returned, so that a batch system could not tell
a run that was preempted from one that failed. Here a failure has one message, and where there are several machines,
all of them end with the first (training/machines.py). The options are accelerate's.
"""

import argparse
import logging
import os
import signal
import subprocess
import sys

from schema.hardware import wrong_count
from training.machines import FAILED, Watch

SECONDS = 600  # to wait for the other machines
PORT = 29500  # accelerate's


def main():
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # or each process warns of what is no mistake
    from accelerate.commands.launch import launch_command, launch_command_parser
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    parser, watch, said = launch_command_parser(), None, ""
    parser.usage = "python -m stages.launch [options of accelerate launch] -m stages.grpo recipes/x.yaml"
    options = parser.parse_args()
    elastic = logging.getLogger("torch.distributed.elastic")  # it tells every signal that it sends
    elastic.propagate = "LOGLEVEL" in os.environ
    elastic.addHandler(logging.NullHandler())
    try:
        watch = _prepared(options)
        launch_command(options)
        code = 0
    except ChildFailedError as error:
        code, said = _failed(error)
    except subprocess.CalledProcessError as error:  # of one process
        code = _of_shell(error.returncode)
    except SignalException as error:  # by now its processes have ended
        code = 75 if error.sigval == signal.SIGTERM else 128 + error.sigval
    except (OSError, ValueError) as error:  # accelerate's own refusals
        code, said = 2, _said(error)
    except DistError as error:
        code, said = FAILED, _said(f"the machines did not find one another: {error}")
    if watch:
        watch.ended(code, said)
        os._exit(code)  # whatever its thread waits for
    sys.exit(code)


def _prepared(options: argparse.Namespace) -> Watch | None:
    """Complete accelerate's options; with several machines, the watch over them, which has begun.

    Raises:
        ValueError: the processes cannot be shared among the machines.
    """
    from accelerate.commands.config.config_args import load_config_from_file

    file = load_config_from_file(options.config_file) if options.config_file else None

    def given(name: str, otherwise):
        return next((found for at in (options, file) if (found := getattr(at, name, None)) is not None), otherwise)

    processes, machines = given("num_processes", 1), given("num_machines", 1)
    launched = {"num_processes": processes, "num_machines": machines, "use_cpu": given("use_cpu", options.cpu)}
    if wrong := wrong_count(launched):
        raise ValueError(wrong)
    if machines == 1:
        options.main_process_port = given("main_process_port", 0)  # any that is free: others may run on this machine
        return None
    if (address := given("main_process_ip", None)) is None:
        raise ValueError(f"--num_machines {machines}, but no --main_process_ip, the address of the first of them")
    if "timeout" not in options.rdzv_conf:
        options.rdzv_conf = ",".join(filter(None, [options.rdzv_conf, f"timeout={SECONDS}"]))
    seconds = float(dict(each.split("=", 1) for each in options.rdzv_conf.split(","))["timeout"])
    started = f"--num_machines {machines} --num_processes {processes}"
    where = address, int(given("main_process_port", PORT))
    watch = Watch(where, int(given("machine_rank", 0)), machines, started, seconds)
    watch.start()
    return watch


def _failed(error) -> tuple[int, str]:
    """The exit code of the process that ended first, and what it said, if it left that to its launcher."""
    rank, failure = error.get_first_failure()
    code = _of_shell(failure.exitcode)
    if failure.error_file_data.get("message") != "<NONE>":  # see stages/cli.py
        said = failure.message
        if rank != 0 and getattr(error.failures.get(0), "exitcode", None) != failure.exitcode:
            print(said, file=sys.stderr)
        return code, said
    if failure.exitcode < 0:
        why = ", as the system does when memory runs out" if failure.signal_name() == "SIGKILL" else ""
        return code, _said(f"process {rank} was ended by {failure.signal_name()}{why}; the same command resumes")
    return code, ""


def _of_shell(code: int) -> int:
    """An exit code as a shell has it, where Python has that of a process that a signal ended below 0."""
    return code if code >= 0 else 128 - code


def _said(error: Exception | str) -> str:
    said = " ".join(str(error).split())
    print(f"launch: {said}", file=sys.stderr)
    return said


if __name__ == "__main__":
    main()
