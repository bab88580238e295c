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
from pathlib import Path

import psutil

from schema.faults import EXIT_CODES, on_signals
from schema.hardware import wrong_count
from schema.terminal import clean
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
    on_signals(_passed_on, (signal.SIGTERM, signal.SIGHUP))  # torch's launcher has handlers of its own
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
        options.signals_to_handle = "SIGTERM,SIGINT,SIGQUIT"
    try:
        if watch := _prepared(options):
            watch.wait()
        launch_command(options)
        code = 0
    except ChildFailedError as error:
        code, said = _failed(error)
    except subprocess.CalledProcessError as error:  # of one process
        code = _of_shell(error.returncode)
    except SignalException as error:  # by now its processes have ended
        code = EXIT_CODES.get(error.sigval, 128 + error.sigval)
    except (ImportError, OSError, ValueError) as error:  # accelerate's own refusals
        code, said = 2, _said(error)
    except DistError as error:
        code, said = FAILED, _said(f"the machines did not find one another: {error}")
    if watch:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one, for which torch would still raise
        watch.ended(code, said)
        os._exit(code)  # whatever its thread waits for
    sys.exit(code)


def _passed_on(number: int, frame: object):
    """To the process that is waited for, which answers it."""
    for each in psutil.Process().children():
        each.send_signal(number)


def _prepared(options: argparse.Namespace) -> Watch | None:
    """Complete accelerate's options; with several machines, the watch over them, which has begun.

    Raises:
        ValueError: the processes cannot be shared among the machines, or the machines could not meet.
    """
    from accelerate.commands.config import config_args
    from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

    has_file = options.config_file or (Path(config_args.default_config_file).is_file() and not options.cpu)
    file = config_args.load_config_from_file(options.config_file) if has_file else None

    def given(name: str, otherwise):
        return next((found for at in (options, file) if (found := getattr(at, name, None)) is not None), otherwise)

    processes, machines = given("num_processes", 1), given("num_machines", 1)
    launched = {"num_processes": processes, "num_machines": machines, "use_cpu": options.cpu or given("use_cpu", False)}
    if not (options.multi_gpu or options.use_fsdp or options.use_deepspeed):  # which accelerate prefers to its file's
        launched["distributed_type"] = "NO" if options.cpu else getattr(file, "distributed_type", None)
    if wrong := wrong_count(launched):
        raise ValueError(wrong)
    if machines == 1:
        options.main_process_port = given("main_process_port", 0)  # any that is free: others may run on this machine
        return None
    if (address := given("main_process_ip", None)) is None:
        raise ValueError(f"--num_machines {machines}, but no --main_process_ip, the address of the first of them")
    if not 0 <= (machine := int(given("machine_rank", 0))) < machines:
        raise ValueError(f"--machine_rank {machine}: the ranks of {machines} machines are 0 to {machines - 1}")
    # For DeepSpeed, accelerate would log in on all machines from each, and forget its port.
    options.deepspeed_multinode_launcher = options.deepspeed_multinode_launcher or "standard"
    options.main_process_port = int(given("main_process_port", PORT))
    words = [each.strip().partition("=")[::2] for each in options.rdzv_conf.split(",") if each]
    conf = {"timeout": str(SECONDS)} | dict(words)
    options.rdzv_conf = ",".join(map("=".join, conf.items()))
    started = f"--num_machines {machines} --num_processes {processes}"
    where = parse_rendezvous_endpoint(f"{address}:{options.main_process_port}", PORT)
    watch = Watch(where, machine, machines, started, int(conf["timeout"]))
    watch.start()
    return watch


def _failed(error) -> tuple[int, str]:
    """The exit code of the process that ended first, and what it said, if it left that to its launcher."""
    rank, failure = error.get_first_failure()
    code = _of_shell(failure.exitcode)
    if failure.error_file_data.get("message") != "<NONE>":  # see stages/cli.py
        said = failure.message
        if getattr(error.failures.get(0), "exitcode", None) != failure.exitcode:
            print(clean(said), file=sys.stderr)
        return code, said
    if failure.exitcode < 0:
        why = ", as the system does when memory runs out" if failure.signal_name() == "SIGKILL" else ""
        return code, _said(f"process {rank} was ended by {failure.signal_name()}{why}; the same command resumes")
    return code, ""


def _of_shell(code: int) -> int:
    """An exit code as a shell has it, where Python's is below 0 if a signal ended the process."""
    return code if code >= 0 else 128 - code


def _said(error: Exception | str) -> str:
    said = " ".join(str(error).split())
    print(clean(f"launch: {said}"), file=sys.stderr)
    return said


if __name__ == "__main__":
    main()
