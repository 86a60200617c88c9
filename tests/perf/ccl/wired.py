# SPDX-License-Identifier: Apache-2.0
"""Two ranks on two hosts, which are namespaces, by TCP over the wire between them: against
Gloo."""

import ranks
import rounds as measured
import sums
from rounds import KIB, MIB

from fault_hosts import Wire
from fault_ranks import Wrong

PEER = "over TCP, against Gloo"
COUNTED = MIB  # of a size from which on the bytes on the wire are looked at


def gloo_target(size):
    least = 2 if size <= 64 * KIB else 1.2
    return f"≥ {least} × Gloo's speed", lambda ours, theirs: theirs >= least * ours


class Wired(sums.Sums):
    """Payloads are seen on the wire."""

    fewest = 2

    def __init__(self, wire, sides):
        super().__init__(sides)
        self.hosts = wire.hosts

    def measure(self, name, size):
        if size < COUNTED:
            return super().measure(name, size)
        before = [host.sent_bytes() for host in self.hosts]
        count = super().measure(name, size)
        for host, sent in zip(self.hosts, before):
            check_sent(f"{name}: {host.name}", host.sent_bytes() - sent, size * count)
        return count


def check_sent(who, sent, payload):
    """A rank of two sends as many bytes as the tensor has, whatever the algorithm."""
    if sent < payload:
        raise ranks.NoAnswer(f"{who} sent {sent} bytes over the wire for sums of {payload}")


def open_sides(build, folder, wire):
    programs = build / "bin" / "perf"
    reasons = ranks.build_peers(programs)
    sides = [("backplane", ranks.both(programs / "speed_backplane"))]
    if "gloo" not in reasons:
        sides += ranks.gloo_sides(programs, folder, *(host.address for host in wire.hosts))
    return ranks.open_all(sides, folder, reasons, wire.hosts)


def measure(options, folder):
    """The rows, and what is to be said of them."""
    all_sums = None
    try:
        with ranks.wire() as wire:
            found, reasons = open_sides(options.build, folder, wire)
            with ranks.closing(found.values()):
                if "backplane" not in found:
                    raise ranks.NoAnswer(reasons["backplane"])
                all_sums = Wired(wire, found)
                all_sums.run(options.rounds)
        why = reasons.get("gloo", "")
    except (OSError, Wrong, ranks.NoAnswer) as error:
        why = str(error)
    rows = sums.rows_against(all_sums, PEER, ranks.GLOO_WAYS, gloo_target, why)
    words = f": {all_sums.rounds.words()}" if all_sums is not None else ""
    return rows, (f"TCP{words}; two hosts, each a network, process and shared memory namespace, "
                  "and a veth between them that nothing slows down; Gloo's TCP transport over the "
                  "same.")
