"""`accelerate launch` that ends as the stage did: with its exit code, 75 for one that was stopped,
saved and goes on.

    python -m stages.launch --config_file accelerate_configs/ddp.yaml -m stages.grpo recipes/x.yaml

accelerate itself ends with 1 and a stack trace, whatever its processes returned, so that a batch
system could not tell a run that was preempted from one that failed. Here a failure has one message.
The options are accelerate's.
"""

import argparse
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from console.faults import EXIT_CODES, on_signals
from console.terminal import clean
from machine.hardware import wrong_count
from stages.cli import write_lines
from training.machines import FAILED


def main():
    # or each process warns of what is no mistake
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from accelerate.commands.launch import launch_command, launch_command_parser
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    write_lines()
    parser, code = launch_command_parser(), 0
    parser.usage = (
        "python -m stages.launch [options of accelerate launch] -m stages.grpo recipes/x.yaml"
    )
    options = parser.parse_args()
    elastic = logging.getLogger("torch.distributed.elastic")  # it tells every signal that it sends
    elastic.propagate = "LOGLEVEL" in os.environ
    elastic.addHandler(logging.NullHandler())
    # torch's launcher has handlers of its own
    on_signals(_passed_on, (signal.SIGTERM, signal.SIGHUP))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
        options.signals_to_handle = "SIGTERM,SIGINT,SIGQUIT"
    try:
        _complete(options)
        launch_command(options)
    except ChildFailedError as error:
        code = _failed(error)
    except subprocess.CalledProcessError as error:  # of one process
        code = _of_shell(error.returncode)
    except SignalException as error:  # by now its processes have ended
        code = EXIT_CODES.get(error.sigval, 128 + error.sigval)
    except (ImportError, OSError, ValueError) as error:  # accelerate's own refusals
        code = 2
        _say(error)
    except DistError as error:
        code = FAILED
        _say(f"the machines did not find one another: {error}")
    sys.exit(code)


def _passed_on(number: int, frame: object):
    """To the process that is waited for, which answers it."""
    for each in psutil.Process().children():
        each.send_signal(number)


def _complete(options: argparse.Namespace):
    """Set what accelerate leaves to its user.

    Raises:
        ValueError: the processes cannot be shared among the machines, or the machines could not
            meet.
    """
    from accelerate.commands.config import config_args

    has_file = options.config_file or (
        Path(config_args.default_config_file).is_file() and not options.cpu
    )
    file = config_args.load_config_from_file(options.config_file) if has_file else None

    def given(name: str, otherwise):
        return next(
            (found for at in (options, file) if (found := getattr(at, name, None)) is not None),
            otherwise,
        )

    processes, machines = given("num_processes", 1), given("num_machines", 1)
    launched = {
        "num_processes": processes,
        "num_machines": machines,
        "use_cpu": options.cpu or given("use_cpu", False),
    }
    launched["asked"] = options.num_processes is not None
    if not (
        options.multi_gpu or options.use_fsdp or options.use_deepspeed
    ):  # which accelerate prefers to its file's
        launched["distributed_type"] = (
            "NO" if options.cpu else getattr(file, "distributed_type", None)
        )
    if wrong := wrong_count(launched):
        raise ValueError(wrong)
    if machines == 1:
        # any that is free: others may run on this machine
        options.main_process_port = given("main_process_port", 0)
        return
    if given("main_process_ip", None) is None:
        raise ValueError(
            f"--num_machines {machines}, but no --main_process_ip, the address of the first of them"
        )
    if not 0 <= (machine := int(given("machine_rank", 0))) < machines:
        raise ValueError(
            f"--machine_rank {machine}: the ranks of {machines} machines are 0 to {machines - 1}"
        )
    # For DeepSpeed, accelerate would log in on all machines from each, and forget its port.
    options.deepspeed_multinode_launcher = options.deepspeed_multinode_launcher or "standard"


def _failed(error) -> int:
    """The exit code of the process that ended first. What it left to its launcher to say is
    said."""
    rank, failure = error.get_first_failure()
    code = _of_shell(failure.exitcode)
    if failure.error_file_data.get("message") != "<NONE>":  # see stages/cli.py
        if getattr(error.failures.get(0), "exitcode", None) != failure.exitcode:
            print(clean(failure.message), file=sys.stderr)
    elif failure.exitcode < 0:
        why = (
            ", as the system does when memory runs out"
            if failure.signal_name() == "SIGKILL"
            else ""
        )
        _say(f"process {rank} was ended by {failure.signal_name()}{why}; the same command resumes")
    return code


def _of_shell(code: int) -> int:
    """An exit code as a shell has it, where Python's is below 0 if a signal ended the process."""
    return code if code >= 0 else 128 - code


def _say(what: Exception | str):
    print(clean(f"launch: {' '.join(str(what).split())}"), file=sys.stderr)


if __name__ == "__main__":
    main()
