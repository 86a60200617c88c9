# SPDX-License-Identifier: Apache-2.0
"""Two ranks on one host: against Open MPI, Gloo and oneCCL, and against the engine alone."""

import os

import ranks
import rounds as measured
import sums
from rounds import KIB, MIB

SMALL = (4, 256, 2 * KIB)  # what the core itself costs is measured with these
MOST_CORE_NS = 1000


def vader_target(size):
    if size <= 2 * KIB:
        return "≤ Open MPI + 2 µs", lambda ours, theirs: ours <= theirs + 2000
    share = 0.9 if size <= 4 * MIB else 0.7
    return f"≥ {share} × Open MPI's speed", lambda ours, theirs: theirs >= share * ours


def gloo_target(size):
    least = {4 * KIB: 20, MIB: 4}.get(size)
    if least is None:
        return "", None
    return f"≥ {least} × Gloo's speed", lambda ours, theirs: theirs >= least * ours


CORE_TARGET = ("≤ the engine alone + 1 µs", lambda ours, theirs: ours <= theirs + MOST_CORE_NS)


class OneHost(sums.Sums):
    """The engine alone exchanges small messages in turns with the sums."""

    def measure(self, name, size):
        super().measure(name, size)
        if name == "backplane" and size in SMALL:
            self.measure_as("engine", self.sides[name], "exchange", size)


def oneccl_commands(program, venv):
    """Under the mpiexec of Intel MPI, which carries its messages. Without a thread of its own in
    each rank: that would share the rank's processor."""
    settings = {"LD_LIBRARY_PATH": venv / "lib", "I_MPI_ROOT": venv, "I_MPI_FABRICS": "shm",
                "I_MPI_PIN": 0, "CCL_ATL_TRANSPORT": "mpi", "CCL_WORKER_OFFLOAD": 0,
                "CCL_KVS_IFACE": "lo"}
    return [["env", *(f"{name}={value}" for name, value in settings.items()),
             venv / "bin" / "mpiexec.hydra", "-n", "2", program, None]]


def open_sides(options, folder):
    """The sides by name, and why the others are not there."""
    programs = options.build / "bin" / "perf"
    reasons = ranks.build_peers(programs)
    reasons.update(ranks.build_oneccl(programs, options.oneccl_venv))
    engines = options.build / "lib" / "backplane" / "plugins" / "engines"
    sides = [("backplane", ranks.both(programs / "speed_backplane",
                                      engines / "backplane_engine_ucx.so"))]
    if "mpi" not in reasons:
        sides.append(("mpi", [["mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else []),
                               "-np", "2", "--bind-to", "none", "--mca", "pml", "ob1", "--mca",
                               "btl", "self,vader", programs / "speed_mpi", None]]))
    if "gloo" not in reasons:
        sides += ranks.gloo_sides(programs, folder, "127.0.0.1")
    if "oneccl" not in reasons:
        sides.append(("oneccl", oneccl_commands(programs / "speed_oneccl", options.oneccl_venv)))
    return ranks.open_all(sides, folder, reasons)


def core_rows(sums_):
    rows = []
    for size in SMALL:
        title = sums.title_of(size, "against its messages by the engine alone")
        why = sums_.rounds.lack()
        rows.append(
            measured.not_run(title, CORE_TARGET, why) if why else
            measured.row_of(title, CORE_TARGET, sums_.rounds.of(("backplane", size)),
                            sums_.rounds.of(("engine", size))))
    return rows


def measure(options, folder):
    """The rows, and what is to be said of them."""
    found, reasons = open_sides(options, folder)
    with ranks.closing(found.values()):
        if "backplane" not in found:
            raise SystemExit(reasons["backplane"])
        all_sums = OneHost(found)
        all_sums.run(options.rounds)
    rows = sums.rows_against(all_sums, "against Open MPI", ["mpi"], vader_target,
                             reasons.get("mpi", ""))
    rows += sums.rows_against(all_sums, "against Gloo", ranks.GLOO_WAYS, gloo_target,
                              reasons.get("gloo", ""))
    rows += sums.rows_against(all_sums, "against oneCCL", ["oneccl"], lambda size: ("", None),
                              reasons.get("oneccl", ""))
    rows += core_rows(all_sums)
    return rows, (f"One host: {all_sums.rounds.words()}. Open MPI: pml ob1, btl vader. Gloo: the "
                  "better of ring and bcube in each round. oneCCL: over Intel MPI, shm. The engine "
                  "alone: the same two processes exchange as many bytes by its table, and sum "
                  "nothing.")
