# SPDX-License-Identifier: Apache-2.0
"""Tests of launch_test.py about where ranks are and meet: nodes that are two hosts, and ranks that
a person starts."""

import os
import pathlib
import socket
import sys

import launch_case
from launch_case import LaunchCase

# Two hosts of one, as the fault table has them.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "ccl_faults"))
import fault_hosts  # noqa: E402  (found through the line above)


class HostsTest(LaunchCase):
    """Nodes that are two hosts: namespaces of this one, where they can be made."""

    def setUp(self):
        super().setUp()
        self.file("token").write_text(os.urandom(32).hex() + "\n")
        self.file("token").chmod(0o600)

    def lay_wire(self, addresses=fault_hosts.ADDRESSES):
        try:
            self.wire = fault_hosts.Wire(addresses)
        except (OSError, fault_hosts.Wrong) as error:
            self.skipTest(f"two hosts cannot be made: {error}")
        self.addCleanup(self.wire.close)

    def all_reduce(self, status, **environment):
        address = self.wire.hosts[0].address
        endpoint = f"[{address}]:4711" if ":" in address else f"{address}:4711"
        nodes = [self.start(*host.enter, launch_case.BIN / "backplane", "launch", "--nnodes", 2,
                            "--node-rank", rank, "-n", 1, "--rdzv", endpoint, "--token-file",
                            self.file("token"), "--devices", "cpu:0", "--",
                            launch_case.BIN / "all_reduce", **environment)
                 for rank, host in enumerate(self.wire.hosts)]
        ends = [self.finish(node, status) for node in nodes]
        return tuple(b"".join(texts).decode() for texts in zip(*ends))

    def expect_sum(self):
        """What is logged."""
        output, errors = self.all_reduce(0, BACKPLANE_CCL_INTERFACE=fault_hosts.WIRE,
                                         BACKPLANE_LOG="info")
        self.assertEqual(sorted(output.splitlines()), [
            f"[rank {rank} cpu:0] rank {rank} of 2 on cpu:0: 3 20" for rank in (0, 1)])
        return errors

    def test_ranks_of_two_hosts_sum(self):
        self.lay_wire()
        self.expect_sum()

    def test_ranks_of_hosts_that_have_ipv6_alone_sum(self):
        self.lay_wire(("fd77::1", "fd77::2"))
        for host in self.wire.hosts:
            self.assertEqual(host.run("ip", "-4", "address", "show", fault_hosts.WIRE), "")
        self.assertIn(f"engine ucx; interface {fault_hosts.WIRE}", self.expect_sum())

    def test_without_an_interface_they_are_refused(self):
        self.lay_wire()
        _, errors = self.all_reduce(1)
        self.assertIn("the group's ranks are on several hosts", errors)
        self.assertIn("(BACKPLANE_CCL_INTERFACE)", errors)


class ByHandTest(LaunchCase):
    """Ranks that this test starts as a person does, as docs/launch.md says."""

    def ranks(self, *arguments, **environment):
        probe = launch_case.BIN / "tests/job_probe"
        return [self.start(probe, *arguments, BACKPLANE_CCL_RANK=rank, BACKPLANE_CCL_RANK_COUNT=2,
                           BACKPLANE_CCL_LOCAL_RANK=rank, BACKPLANE_CCL_LOCAL_COUNT=2,
                           **environment) for rank in (0, 1)]

    def test_without_a_store_as_often_as_one_likes(self):
        for _ in range(2):
            for rank in self.ranks():
                self.finish(rank, 0)

    def test_file_of_an_earlier_run_is_told(self):
        store = f"file:{self.file('store')}"
        for rank in self.ranks(BACKPLANE_CCL_STORE=store):
            self.finish(rank, 0)
        for number, rank in enumerate(self.ranks(BACKPLANE_CCL_STORE=store)):
            _, errors = self.finish(rank, 9)
            self.assertIn(f"rank {number} is there already, as process ", errors.decode())
            self.assertIn(str(self.file("store")), errors.decode())
            self.assertIn("that process has ended, so that the file is of an earlier run: remove "
                          "it", errors.decode())
        self.file("store").unlink()
        for rank in self.ranks(BACKPLANE_CCL_STORE=store):
            self.finish(rank, 0)

    def test_store_that_a_program_serves(self):
        self.file("token").write_text(os.urandom(32).hex() + "\n")
        self.file("token").chmod(0o600)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            endpoint = f"127.0.0.1:{found.getsockname()[1]}"
        ranks = self.ranks(BACKPLANE_CCL_STORE=f"tcp://{endpoint}", BACKPLANE_CCL_JOB="mine",
                           BACKPLANE_CCL_TOKEN_FILE=self.file("token"))
        self.start(launch_case.BIN / "tests/job_probe", "serve", endpoint, self.file("token"),
                   "job mine")
        for rank in ranks:
            self.finish(rank, 0)
