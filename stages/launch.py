"""`accelerate launch` that ends as the stage did: with its exit code, 75 for one that was stopped, saved and goes on.

    python -m stages.launch --config_file accelerate_configs/ddp.yaml -m stages.grpo recipes/x.yaml

accelerate itself ends with 1 and a stack trace, whatever its processes returned, so that a batch system could not tell
a run that was preempted from one that failed. The options are accelerate's.
"""

import signal
import subprocess
import sys

FAILED = 3  # as a run that stopped rather than go wrong


def main():
    from accelerate.commands.launch import launch_command, launch_command_parser
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError

    try:
        launch_command(launch_command_parser().parse_args())
    except ChildFailedError as error:
        sys.exit(_of_shell(error.get_first_failure()[1].exitcode))
    except subprocess.CalledProcessError as error:  # of one process
        sys.exit(_of_shell(error.returncode))
    except SignalException as error:  # by now its processes have ended
        sys.exit(75 if error.sigval == signal.SIGTERM else 128 + error.sigval)
    except (ConnectionError, ValueError) as error:  # accelerate's own refusals
        sys.exit(_said(error, 2))
    except (DistError, RendezvousError) as error:
        sys.exit(_said(f"the machines did not find one another: {error}", FAILED))


def _of_shell(code: int) -> int:
    """An exit code as a shell has it, where Python has that of a process that a signal ended below 0."""
    return code if code >= 0 else 128 - code


def _said(error: Exception | str, code: int) -> int:
    print(f"launch: {' '.join(str(error).split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
