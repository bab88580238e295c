"""`accelerate launch` that ends as the stage did: with its exit code, 75 for one that was stopped,
saved and goes on.

    python -m stages launch --config_file accelerate_configs/ddp.yaml -m stages grpo recipes/x.yaml

accelerate itself ends with 1 and a stack trace, whatever its processes returned, so a batch system
could not distinguish a preempted run from a failed one. This launcher prints one message for a
failure. The options are accelerate's.
"""

import argparse
import logging
import os
import signal
import subprocess
import sys

import psutil

from console.faults import EXIT_CODES, ended_by_signal, on_signals
from console.terminal import clean
from machine.hardware import wrong_count
from stages.cli import write_lines
from training.process_group import FAILED


def main():
    # Otherwise each process prints warnings about no mistake of the user.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from accelerate.commands.launch import launch_command, launch_command_parser
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    write_lines()
    parser = launch_command_parser()
    parser.usage = (
        "python -m stages launch [options of accelerate launch] -m stages grpo recipes/x.yaml"
    )
    options = parser.parse_args()
    elastic = logging.getLogger("torch.distributed.elastic")  # it logs every signal that it sends
    elastic.propagate = "LOGLEVEL" in os.environ
    elastic.addHandler(logging.NullHandler())
    # torch's launcher replaces these handlers; a launch of one process keeps them.
    on_signals(_pass_on, (signal.SIGTERM, signal.SIGHUP))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
        options.signals_to_handle = "SIGTERM,SIGINT,SIGQUIT"
    code = 0
    try:
        _complete(options)
        launch_command(options)
    except ChildFailedError as error:
        code = _report_failure(error)
    except subprocess.CalledProcessError as error:  # a launch of one process
        code = _shell_code(error.returncode)
        if error.returncode < 0:
            _say(ended_by_signal("the process", -error.returncode))
    except SignalException as error:  # by now its processes have ended
        code = EXIT_CODES.get(error.sigval, 128 + error.sigval)
    except (ImportError, OSError, ValueError) as error:  # accelerate refuses an option
        code = 2
        _say(error)
    except DistError as error:
        code = FAILED
        _say(f"the machines did not find one another: {error}")
    sys.exit(code)


def _pass_on(number: int, frame: object):
    """Send the signal on to the process that this launcher waits for."""
    for process in psutil.Process().children():
        process.send_signal(number)


def _complete(options: argparse.Namespace):
    """Set the options that accelerate leaves to its user. Raises ValueError where the machines
    cannot share the processes, or have too few GPUs."""
    from accelerate.commands.config import config_args

    file = None
    if options.config_file:
        file = config_args.load_config_from_file(options.config_file)
    machines = options.num_machines or getattr(file, "num_machines", 1)
    launched = {
        "num_processes": options.num_processes or getattr(file, "num_processes", 1),
        "num_machines": machines,
        "use_cpu": options.cpu or getattr(file, "use_cpu", False),
        "asked": options.num_processes is not None,
    }
    # accelerate prefers these options to its file's type.
    if not (options.multi_gpu or options.use_fsdp or options.use_deepspeed):
        file_type = getattr(file, "distributed_type", None)
        launched["distributed_type"] = "NO" if options.cpu else file_type
    message = wrong_count(launched)
    if message:
        raise ValueError(message)
    if machines > 1:
        # For DeepSpeed, accelerate would log in on all machines from each, and forget its port.
        options.deepspeed_multinode_launcher = options.deepspeed_multinode_launcher or "standard"
    elif options.main_process_port is None and getattr(file, "main_process_port", None) is None:
        options.main_process_port = 0  # any free port: another launch may run on this machine


def _report_failure(error) -> int:
    """Print the message of the process that ended first, unless it printed it itself, and return
    its exit code."""
    rank, failure = error.get_first_failure()
    code = _shell_code(failure.exitcode)
    if failure.error_file_data.get("message") != "<NONE>":  # see stages/cli.py
        if getattr(error.failures.get(0), "exitcode", None) != failure.exitcode:
            print(clean(failure.message), file=sys.stderr)
    elif failure.exitcode < 0:
        _say(ended_by_signal(f"process {rank}", -failure.exitcode))
    return code


def _shell_code(code: int) -> int:
    """An exit code as a shell gives it; Python's is below 0 if a signal ended the process."""
    return code if code >= 0 else 128 - code


def _say(message: Exception | str):
    print(clean(f"launch: {' '.join(str(message).split())}"), file=sys.stderr)


if __name__ == "__main__":
    main()
