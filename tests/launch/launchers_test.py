# SPDX-License-Identifier: Apache-2.0
"""A program of ours under the launchers of others: Open MPI's mpirun, MPICH's mpiexec, torchrun,
srun. What cannot be here is played by its variables, and says so.

    launchers_test.py BIN_FOLDER mpi|torchrun|srun [PYTHON...]

PYTHON: that may have PyTorch; the first that does is used. Without one the exit code is 77.
"""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import launch_case
from launch_case import LaunchCase

NOT_RUN = 77
PYTORCH = None
FAILED = 9  # job_probe's code for an Error


class ForeignCase(LaunchCase):
    def probe(self):
        return launch_case.BIN / "tests/job_probe"

    def check_pair(self, text, launcher, restart=0):
        lines = re.findall(r"rank \d of .*", text)
        self.assertEqual(sorted(lines), [
            f"rank {rank} of 2, {rank} of 2 here, restart {restart}, launcher '{launcher}', "
            "device 'none'" for rank in (0, 1)], text)
        self.assertEqual([each.name for each in self.file("backplane").iterdir()], ["gate"])

    def tool(self, *names, package):
        for name in names:
            if found := shutil.which(name):
                return found
        self.fail(f"{names[0]} is not installed: apt-get install {package}, as ./dev test does")


class MpiTest(ForeignCase):
    def mpirun(self, *arguments, **environment):
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}
        # A folder of its own: of two that make the shared one at once, Open MPI 4 lets one fail.
        session = tempfile.mkdtemp(prefix="mpi", dir=self.folder)
        return self.start(self.tool("mpirun.openmpi", package="openmpi-bin"), "--oversubscribe",
                          "--mca", "orte_tmpdir_base", session, *arguments, **as_root,
                          **environment)

    def test_mpirun(self):
        output, _ = self.finish(self.mpirun("-n", 2, self.probe()), 0)
        self.check_pair(output.decode(), "mpirun")

    def test_mpirun_round_a_shell(self):
        output, _ = self.finish(self.mpirun("-n", 2, "sh", "-c", f"{self.probe()}; exit $?"), 0)
        self.check_pair(output.decode(), "mpirun")

    def test_two_jobs_at_once_do_not_meet(self):
        jobs = [self.mpirun("-n", 2, self.probe()) for _ in range(2)]
        for job in jobs:
            output, _ = self.finish(job, 0)
            self.assertEqual(len(re.findall(r"rank \d of 2, ", output.decode())), 2)

    def test_mpirun_one_rank(self):
        output, _ = self.finish(self.mpirun("-n", 1, self.probe()), 0)
        self.assertIn(b"rank 0 of 1, 0 of 1 here, restart 0, launcher 'mpirun'", output)

    def test_mpiexec(self):
        mpiexec = self.tool("mpiexec.hydra", "mpiexec.mpich", package="mpich")
        output, _ = self.finish(self.start(mpiexec, "-n", 2, self.probe()), 0)
        self.check_pair(output.decode(), "mpiexec")
        shell = self.start(mpiexec, "-n", 2, "sh", "-c", f"{self.probe()}; exit $?")
        output, _ = self.finish(shell, 0)
        self.check_pair(output.decode(), "mpiexec")


class PlayedCase(ForeignCase):
    """Ranks that this test starts itself, with the variables that a launcher would set."""

    def play(self, all_variables):
        ranks = [self.start(self.probe(), **variables) for variables in all_variables]
        return "".join(self.finish(rank, 0)[0].decode() for rank in ranks)

    def several_hosts(self, all_variables):
        """With a store that rank 0 serves."""
        token = self.file("token")
        token.write_text(os.urandom(32).hex())
        token.chmod(0o600)
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            endpoint = f"127.0.0.1:{found.getsockname()[1]}"
        more = {"BACKPLANE_CCL_STORE": f"tcp://{endpoint}", "BACKPLANE_CCL_TOKEN_FILE": token}
        return self.play([variables | more for variables in all_variables])


def slurm(rank, nodes):
    """As srun sets them within an allocation of 8 tasks: nodes by rank."""
    counts = [nodes.count(node) for node in sorted(set(nodes))]
    return {"SLURM_JOB_ID": 17, "SLURM_STEP_ID": 3, "SLURM_NTASKS": 8, "SLURM_NPROCS": 8,
            "SLURM_JOB_NUM_NODES": 4, "SLURM_STEP_NUM_TASKS": len(nodes), "SLURM_PROCID": rank,
            "SLURM_STEP_NUM_NODES": len(counts), "SLURM_NODEID": nodes[rank],
            "SLURM_LOCALID": nodes[:rank].count(nodes[rank]),
            "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, counts))}


class SrunTest(PlayedCase):
    """Played: srun needs a cluster."""

    def test_one_host(self):
        self.check_pair(self.play([slurm(rank, [0, 0]) for rank in (0, 1)]), "srun")

    def test_several_hosts(self):
        text = self.several_hosts([slurm(rank, [0, 0, 1]) for rank in range(3)])
        self.assertEqual(sorted(re.findall(r"rank (\d) of 3, (\d) of (\d) here", text)),
                         [("0", "0", "2"), ("1", "1", "2"), ("2", "0", "1")])

    def test_within_an_allocation_without_srun(self):
        alone = {name: value for name, value in slurm(0, [0, 0]).items() if "STEP" not in name}
        self.assertIn("rank 0 of 1, 0 of 1 here, restart 0, launcher ''", self.play([alone]))

    def test_missing_ranks_are_named(self):
        rank = self.start(self.probe(), BACKPLANE_CCL_TIMEOUT=1, **slurm(1, [0, 0, 0]))
        _, errors = self.finish(rank, FAILED)
        self.assertIn(b"job 17.3: ranks 0, 2 of 3 did not come", errors)

    def test_several_hosts_without_a_store(self):
        _, errors = self.finish(self.start(self.probe(), **slurm(0, [0, 1])), FAILED)
        self.assertIn(b"BACKPLANE_CCL_STORE: expected tcp://ADDRESS:PORT", errors)


def torch(rank, count, local_count, restart=0):
    return {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank % local_count,
            "LOCAL_WORLD_SIZE": local_count, "GROUP_RANK": rank // local_count,
            "GROUP_WORLD_SIZE": count // local_count, "ROLE_RANK": rank, "ROLE_WORLD_SIZE": count,
            "MASTER_ADDR": "localhost", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": restart, "TORCHELASTIC_MAX_RESTARTS": 3,
            "TORCHELASTIC_USE_AGENT_STORE": "True"}


class PlayedTorchrunTest(PlayedCase):
    """Played, for machines without PyTorch."""

    def test_one_host(self):
        self.check_pair(self.play([torch(rank, 2, 2, 1) for rank in (0, 1)]), "torchrun", 1)

    def test_several_hosts(self):
        text = self.several_hosts([torch(rank, 4, 2) for rank in range(4)])
        self.assertEqual(sorted(re.findall(r"rank (\d) of 4, (\d) of 2 here", text)),
                         [("0", "0"), ("1", "1"), ("2", "0"), ("3", "1")])

    def test_with_the_other_hosts_of_a_job_missing(self):
        rank = self.start(self.probe(), **torch(0, 4, 2))
        _, errors = self.finish(rank, FAILED)
        self.assertIn(b"2 of 4 ranks are on this host", errors)


class TorchrunTest(ForeignCase):
    def torchrun(self, *arguments):
        return self.start(PYTORCH, "-m", "torch.distributed.run", "--nproc-per-node", 2,
                          *arguments)

    def test_torchrun(self):
        output, _ = self.finish(self.torchrun("--no-python", self.probe()), 0)
        self.check_pair(output.decode(), "torchrun")

    def test_restart(self):
        done = f"{self.folder}/done"
        script = (f"{self.probe()}; echo >> {done}; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; "
                  f"while [ $(wc -l < {done}) != 2 ]; do sleep 0.01; done; exit 1")
        process = self.torchrun("--max-restarts", 1, "--no-python", "sh", "-c", script)
        output, _ = self.finish(process, 0)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 2, .* restart (\d)", output.decode())),
                         [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")])


def pytorch_of(pythons):
    for each in pythons:
        if pathlib.Path(each).exists() and subprocess.run(
                [each, "-c", "import torch.distributed.run"], stderr=subprocess.DEVNULL,
                timeout=300, check=False).returncode == 0:
            return each
    return None


if __name__ == "__main__":
    launch_case.BIN = pathlib.Path(sys.argv[1]).resolve()
    tests = {"mpi": [MpiTest], "srun": [SrunTest, PlayedTorchrunTest], "torchrun": [TorchrunTest]}
    if sys.argv[2] == "torchrun":
        PYTORCH = pytorch_of(sys.argv[3:])
        if PYTORCH is None:
            print("NOT RUN: torchrun, since no Python here has PyTorch; the others play it")
            sys.exit(NOT_RUN)
    loaded = [unittest.defaultTestLoader.loadTestsFromTestCase(each) for each in tests[sys.argv[2]]]
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(
        unittest.TestSuite(loaded)).wasSuccessful())
