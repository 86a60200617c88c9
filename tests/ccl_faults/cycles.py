# SPDX-License-Identifier: Apache-2.0
"""A rank dies, the others rebuild the group without it and compute, another one takes its place: as
often as wanted, in the same two processes, whose descriptors, threads and memory stay as they
were."""

import signal
import tempfile
import time

from fault_hosts import ThisHost
from fault_job import LONG, SHORT, Job
from fault_ranks import Wrong, now_ns
from faults import DEATH_MS, Scene

RANKS = 3
VICTIM = 1
# From the last of the first cycles, which fill what is kept for later, to the end.
WARM_CYCLES = 10
MOST_GROWTH_KIB = 8 * 1024


def run_cycle(job, scene, count):
    """With sums of so many elements."""
    victim = job.ranks[VICTIM]
    job.join(job.ranks)
    numbers = job.begin_sums(count)
    begun = now_ns()
    victim.signal(signal.SIGKILL)
    for rank in scene.others:
        scene.expect(rank, job.ranks[rank].answer(numbers[rank], 1), begun, codes=["UNAVAILABLE"],
                     culprits=[VICTIM], bound_ms=DEATH_MS)
    job.rebuild(scene.survivors)
    job.check_possessions(scene.survivors)
    job.renew(VICTIM)


def run_cycles(program, count):
    """What came of it, as a row of the report."""
    begin = time.monotonic()
    row = {"fault": "SIGKILL", "place": f"{count} cycles", "layout": "one host", "ranks": RANKS,
           "suite": "", "why": "", "outcome": "failed"}
    done = 0
    job = None
    with tempfile.TemporaryDirectory(prefix="bp_ccl_faults_") as folder:
        try:
            job = Job(program, [ThisHost()] * RANKS, folder)
            job.warm_up()
            scene = Scene(job, None, "short sum")
            memory = {}
            for done in range(count):
                if done == min(WARM_CYCLES, count // 2):
                    memory = {rank: rank.memory_kib() for rank in scene.survivors}
                run_cycle(job, scene, SHORT if done % 2 else LONG)
            growth = max(rank.memory_kib() - kib for rank, kib in memory.items())
            if growth > MOST_GROWTH_KIB:
                raise Wrong(f"the memory of a survivor grew by {growth} KiB")
            if job.rebuilt_count != count:
                raise Wrong(f"{job.rebuilt_count} groups were rebuilt in {count} cycles")
            job.end(job.ranks)
            row.update(outcome="passed", slowest_ms=round(scene.slowest_ms),
                       bound_ms=scene.bound_ms, rebuilt=job.rebuilt_count,
                       words=f"memory grew by {growth} KiB")
        except Wrong as wrong:
            row["words"] = f"cycle {done}: {wrong}"
            row["logs"] = job.logs() if job is not None else ""
        finally:
            if job is not None:
                job.discard()
    row["seconds"] = round(time.monotonic() - begin, 1)
    return row
