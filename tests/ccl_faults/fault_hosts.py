# SPDX-License-Identifier: Apache-2.0
"""Where ranks of the fault table run: on this host, or on two that are namespaces of it, each with
its own network, processes, shared memory, mounts and name, and a wire between them."""

import json
import os
import pathlib
import subprocess
import time

from fault_ranks import Wrong, wait_until

WIRE = "wire"  # the interface, on both hosts
ADDRESSES = ("10.77.0.1", "10.77.0.2")
NOWHERE = "02:00:00:00:00:99"


class ThisHost:
    """Plain processes."""

    name = "this host"
    address = "127.0.0.1"
    enter = ()
    environment = {}

    def pid_of(self, started):
        return started

    def shared_memory(self, makers=()):
        """Names of what is there: files of others, too, segments of the processes `makers`."""
        names = {path.name for path in pathlib.Path("/dev/shm").iterdir()}
        lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()
        maker, number = (lines[0].split().index(name) for name in ("cpid", "shmid"))
        segments = [line.split() for line in lines[1:]]
        return names | {f"segment {segment[number]}" for segment in segments
                        if int(segment[maker]) in makers}

    def close(self):
        pass


class NamespaceHost:
    """It ends with the process that keeps it, and everything on it does."""

    environment = {"BACKPLANE_CCL_INTERFACE": WIRE}

    def __init__(self, number, address):
        self.name = f"host-{number}"
        self.address = address
        self.keeper = subprocess.Popen(
            ["unshare", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--mount-proc",
             "--kill-child", "sh", "-c",
             # Programs look for interfaces in /sys, which shows those of who mounts it.
             "mount -t sysfs sysfs /sys && mount -t tmpfs shm /dev/shm && "
             f"hostname {self.name} && ip link set lo up && echo ready && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)
        if self.keeper.stdout.readline() != "ready\n":
            raise OSError("namespaces cannot be made: " + self.keeper.stderr.read().strip())
        self.pid = self._child_of(self.keeper.pid)
        self.enter = ("nsenter", "--target", str(self.pid), "--mount", "--net", "--ipc", "--uts",
                      "--pid", "--")

    @staticmethod
    def _child_of(pid):
        path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        return int(wait_until(lambda: path.read_text().split(), f"a child of process {pid}")[0])

    def pid_of(self, started):
        """The program's, which the one that entered has started."""
        return self._child_of(started)

    def run(self, *command, enter=None):
        """`enter`: not into all that the host has."""
        done = subprocess.run([*(enter or self.enter), *command], capture_output=True, text=True,
                              timeout=20, check=False)
        if done.returncode != 0:
            raise Wrong(f"{self.name}: {' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def shared_memory(self, _=()):
        """All of it: nobody else is here."""
        text = self.run("sh", "-c", "ls /dev/shm; tail -n +2 /proc/sysvipc/shm")
        return set(text.splitlines())

    def processes(self):
        """Those of the host but the one that keeps it; zombies have ended."""
        text = self.run("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null || true")
        lines = [line.partition("(")[2].rpartition(")") for line in text.splitlines()]
        return [name for name, _, rest in lines if rest.split()[0] != "Z"
                and name not in ("sh", "cat")]

    def sent_bytes(self):
        told = json.loads(self.run("ip", "-json", "-stats", "link", "show", WIRE))
        return told[0]["stats64"]["tx"]["bytes"]

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait(20)
        self.keeper.stdout.close()
        self.keeper.stderr.close()


class Wire:
    """Two hosts and what is between them. Each fault is of all connections over it, but for those
    to the store's port where that is said."""

    def __init__(self, addresses=ADDRESSES):
        self.hosts = []
        try:
            for number, address in enumerate(addresses):
                self.hosts.append(NamespaceHost(number, address))
            self._lay()
        except (OSError, Wrong):
            self.close()
            raise

    def _lay(self):
        first, second = self.hosts
        # Where the number of the second host's process is known.
        first.run("ip", "link", "add", WIRE, "type", "veth", "peer", "name", WIRE, "netns",
                  str(second.pid), enter=("nsenter", "--target", str(first.pid), "--net", "--"))
        for host in self.hosts:
            # Without "nodad" an address of IPv6 serves only after two seconds of looking for others
            # that have it.
            how = ("/64", "nodad") if ":" in host.address else ("/24",)
            host.run("ip", "address", "add", host.address + how[0], "dev", WIRE, *how[1:])
            host.run("ip", "link", "set", WIRE, "up")
        self.link_addresses = [
            json.loads(host.run("ip", "-json", "link", "show", WIRE))[0]["address"]
            for host in self.hosts]
        self.await_carrier()

    def await_carrier(self):
        for host in self.hosts:
            wait_until(lambda: '"operstate":"UP"' in host.run("ip", "-json", "link", "show", WIRE),
                       "a carrier", 10)

    def await_loss(self):
        """Until the first host's system knows that its link is down, which takes up to a second."""
        wait_until(lambda: '"operstate":"UP"' not in
                   self.hosts[0].run("ip", "-json", "link", "show", WIRE), "a lost carrier", 10)

    def _lead(self, addresses):
        """Frames from either host go to that link address of the other one."""
        for host, other, address in zip(self.hosts, reversed(self.hosts), addresses):
            host.run("ip", "neighbour", "replace", other.address, "lladdr", address, "dev", WIRE,
                     "nud", "permanent")

    def swallow(self):
        """What is sent arrives nowhere, and nobody is told."""
        self._lead((NOWHERE, NOWHERE))

    def cut(self):
        self.hosts[1].run("ip", "link", "set", WIRE, "down")

    def reset(self, spared_port=None):
        """Connections end with a reset, all but those to a port of the first host."""
        which = f"( dst {self.hosts[1].address} )"
        if spared_port is not None:
            which = f"( dst {self.hosts[1].address} and not sport = :{spared_port} )"
        self.hosts[0].run("ss", "--kill", "--tcp", "--numeric", which)
        left = self.hosts[0].run("ss", "--no-header", "--tcp", "state", "established", which)
        if left.strip():
            raise Wrong(f"ss --kill, which needs CONFIG_INET_DIAG_DESTROY, has left: {left}")

    def mend(self):
        self.hosts[1].run("ip", "link", "set", WIRE, "up")
        self.await_carrier()
        self._lead(tuple(reversed(self.link_addresses)))

    def close(self):
        for host in self.hosts:
            host.close()
