# SPDX-License-Identifier: Apache-2.0
"""Two hosts, and a wire between them that is held at 1 Gbit/s: tensors of a device whose memory the
host cannot touch against what the wire carries, and how much of its communication data parallel
training hides."""

import ranks
import rounds as measured
from rounds import MIB

from fault_hosts import WIRE
from fault_ranks import Wrong

RATE = "1Gbit"
BYTES = 64 * MIB
CHUNK = 4 * MIB  # BACKPLANE_CCL_CHUNK, as it is left out
SLOTS = 4  # of the ring that chunks go through
LAYERS, LAYER_BYTES = 16, 2 * MIB  # of speed_npu
STAGED = (("broadcast f32", "broadcast", "transfer"), ("all_reduce sum f32", "all_reduce", "swap"))
LINK_TARGET = ("≥ 0.9 × the link's speed", lambda ours, theirs: theirs >= 0.9 * ours)
RING_TARGET = (f"≤ {SLOTS} chunks", lambda ours, theirs: ours <= theirs)
STEPS = ("compute", "communicate", "train")
HIDDEN_TARGET = ("≥ 0.7 of communication hidden", lambda ours, theirs: hidden(ours, theirs) >= 0.7)
TRAIN_TITLE = (f"data parallel step of {LAYERS} gradients of {measured.words_of(LAYER_BYTES)} on "
               "npu:0, against computing and communicating one after the other")
RING_TITLE = f"host memory that npu:0 takes for {measured.words_of(BYTES)}, in chunks"


def staged_title(words):
    return f"{words} {measured.words_of(BYTES)} of npu:0, staged, at {RATE}/s, against plain TCP"


def hidden(train, parts):
    """parts: the times of computing and of communicating."""
    compute, communicate = parts
    return 1 - (train - compute) / communicate


def hold(wire):
    for host in wire.hosts:
        host.run("tc", "qdisc", "replace", "dev", WIRE, "root", "tbf", "rate", RATE,
                 "burst", "256kb", "latency", "50ms")


class Held:
    """A round of all rows."""

    def __init__(self, wire, found):
        self.hosts = wire.hosts
        self.npu, self.tcp = found["npu"], found["tcp"]
        self.rounds = measured.Rounds(lambda: measured.copy_time(self.npu))

    def run_one(self):
        for _, ours, theirs in STAGED:
            before = self.hosts[0].sent_bytes()
            self.rounds.add(ours, self.npu.measure(ours, BYTES, 1))
            sent = self.hosts[0].sent_bytes() - before
            if sent < BYTES:
                raise ranks.NoAnswer(f"{ours} sent {sent} bytes over the wire, of {BYTES}")
            self.rounds.add(theirs, self.tcp.measure(theirs, BYTES, 1))
        for step in STEPS:
            self.rounds.add(step, self.npu.measure(step, 0, 1))
        self.rounds.add("ring", self.npu.measure("ring_bytes", 0, 1))


def ring_row(rounds):
    """Of bytes, in chunks."""
    taken = max(rounds.of("ring"))
    is_met = RING_TARGET[1](taken, SLOTS * CHUNK)
    return {"title": RING_TITLE, "ratio": taken / CHUNK, "target": RING_TARGET[0],
            "rounds": len(rounds.of("ring")), "status": "met" if is_met else "MISSED",
            "required": True}


def train_row(rounds):
    parts = list(zip(rounds.of("compute"), rounds.of("communicate")))
    return measured.row_of(TRAIN_TITLE, HIDDEN_TARGET, rounds.of("train"), parts, hidden, sum)


def rows_of(rounds, why):
    why = why or rounds.lack()
    rows = []
    for words, ours, theirs in STAGED:
        title = staged_title(words)
        rows.append(measured.not_run(title, LINK_TARGET, why) if why else
                    measured.row_of(title, LINK_TARGET, rounds.of(ours), rounds.of(theirs)))
    rows.append(measured.not_run(RING_TITLE, RING_TARGET, why) if why else ring_row(rounds))
    rows.append(measured.not_run(TRAIN_TITLE, HIDDEN_TARGET, why) if why else train_row(rounds))
    return rows


def measure(options, folder):
    """The rows, and what is to be said of them."""
    held, why = None, ""
    programs = options.build / "bin" / "perf"
    try:
        with ranks.wire() as wire:
            hold(wire)
            found, reasons = ranks.open_all(
                [("npu", ranks.both(programs / "speed_npu")),
                 ("tcp", ranks.both(programs / "speed_tcp", wire.hosts[0].address))],
                folder, {}, wire.hosts)
            with ranks.closing(found.values()):
                if reasons:
                    raise ranks.NoAnswer("; ".join(reasons.values()))
                held = Held(wire, found)
                held.rounds.run(held.run_one, options.rounds)
    except (OSError, Wrong, ranks.NoAnswer) as error:
        why = str(error)
    words = f": {held.rounds.words()}" if held is not None else ""
    return rows_of(held.rounds if held is not None else None, why), (
        f"At {RATE}/s{words}; the veth is held by tbf at both ends. Speed of the step: the share "
        "of the communication's time that the step does not take beside its computing, whose "
        "kernels, two for each gradient, take 10 ms each and no processor; its peer's time is "
        "that of both.")
