"""Machines that are none: network namespaces of this one, each with an address, on one bridge."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.waits import run_command


@contextmanager
def namespaces(bridge: str, host: str, addresses: dict[str, str]) -> Iterator[None]:
    """Make them by their names, which are those of their cables too, in at most 15 letters; the
    test is skipped where that is not permitted."""
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip`: apt-get install iproute2")
    lines = [f"link add {bridge} type bridge"]
    lines += [f"address add {host}/24 dev {bridge}", f"link set {bridge} up"]
    for name, address in addresses.items():
        lines += [f"netns add {name}", f"link add {name} type veth peer name eth0 netns {name}"]
        lines += [f"link set {name} master {bridge} up", f"-n {name} link set eth0 up"]
        lines += [f"-n {name} address add {address}/24 dev eth0", f"-n {name} link set lo up"]
    try:
        for line in lines:
            done = run_command(["ip", *line.split()], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"`ip {line}` is not permitted here: {done.stderr.strip()}")
        yield
    finally:
        for name in addresses:
            run_command(["ip", "netns", "delete", name], capture_output=True)
        run_command(["ip", "link", "delete", bridge], capture_output=True)
