# SPDX-License-Identifier: Apache-2.0
"""What each fault of the table is and how the ranks have to end. A function for each fault takes a
scene, which it leaves with all survivors in no group; it raises Wrong."""

import random
import signal
import time

from fault_hosts import WIRE
from fault_job import INQUIRY_MS, JOIN_MS, LONG, OPERATION_MS, SHORT, SLACK_MS
from fault_ranks import Wrong, now_ns, wait_until

DEATH_MS = 2_000
ABORT_MS = 1_000
IMPATIENT_MS = 1_500  # for joining that does not come to its end
LEFT_MS = 4_000  # ... where one joins behind the others
LOOKS_S = 2  # longer than engines take to look at their peers
BUSY_S = 1  # until a rank that was told to join is in it
LATE_MS = OPERATION_MS + INQUIRY_MS + SLACK_MS


class Late(Wrong):
    """Right, and beyond its bound, which a busy machine may be to blame for."""


class Scene:
    """A job at the place where the fault comes, and what was seen of it."""

    def __init__(self, job, wire, place):
        self.job = job
        self.wire = wire
        self.place = place
        self.ranks = job.ranks
        self.victim = len(self.ranks) - 1 if wire else 1
        self.others = [rank for rank in range(len(self.ranks)) if rank != self.victim]
        self.survivors = [self.ranks[rank] for rank in self.others]
        self.closed = []  # whose runtime has gone
        self.timeout_ms = JOIN_MS  # of operations; less where they end by it
        self.slowest_ms, self.bound_ms = 0, 1  # of the end that came nearest to its bound
        self.words = ""

    @property
    def count(self):
        """Elements of the operations at this place."""
        return LONG if self.place == "8 MiB sum" else SHORT

    @property
    def lost(self):
        return self.ranks[self.victim]

    def begin(self):
        """The operations in progress, by rank; at `idle` there are none."""
        self.job.join(self.ranks)
        if self.place == "idle":
            return [None] * len(self.ranks)
        numbers = self.job.begin_sums(self.count, timeout_ms=self.timeout_ms)
        time.sleep(random.uniform(0.005, 0.04))
        return numbers

    def end_of(self, rank, number):
        """How it ended there; without a number, how the next sum ends."""
        program = self.ranks[rank]
        if number is None:
            return program.answer(program.begin("sum", SHORT, self.timeout_ms))
        return program.answer(number, 1)

    def expect_all(self, ranks, numbers, begun_ns, **expected):
        """Of several ranks, those without a number sum at once."""
        numbers = [self.ranks[rank].begin("sum", SHORT, self.timeout_ms) if number is None
                   else number for rank, number in zip(ranks, numbers)]
        for rank, number in zip(ranks, numbers):
            program = self.ranks[rank]
            nth = 1 if self.place in ("short sum", "8 MiB sum") else 0
            self.expect(rank, program.answer(number, nth), begun_ns, **expected)

    def expect(self, rank, answer, begun_ns, codes, culprits, bound_ms, words=()):
        """culprits: one of them at least is told, and none but them. Who cannot join has words
        alone."""
        took_ms = (answer["at_ns"] - begun_ns) / 1e6
        who = f"rank {rank} ended with {answer['words']!r}, culprits {answer['culprits']}"
        if answer["code"] not in codes:
            raise Wrong(f"expected {' or '.join(codes)}; {who}")
        is_told = bool(answer["culprits"]) or not culprits or self.place == "joining"
        if not is_told or not set(answer["culprits"]) <= set(culprits):
            raise Wrong(f"expected culprits of {sorted(culprits)}; {who}")
        named = answer["culprits"] or culprits
        if culprits and not any(f"rank {one}" in answer["words"] or
                                f"these did not come in time: {one}" in answer["words"]
                                for one in named):
            raise Wrong(f"expected that one of the ranks {sorted(named)} is named; {who}")
        for word in words:
            if word not in answer["words"]:
                raise Wrong(f"expected {word!r}; {who}")
        if took_ms > bound_ms:
            raise Late(f"expected an end within {bound_ms} ms; after {took_ms:.0f} ms {who}")
        if took_ms * self.bound_ms >= self.slowest_ms * bound_ms:
            self.slowest_ms, self.bound_ms = took_ms, bound_ms
        self.words = answer["words"]


# --- Processes that go

def sigkill(scene):
    job = scene.job
    if scene.place == "joining":
        return leave_while_joining(scene, scene.lost.kill, ["TIMEOUT", "UNAVAILABLE"])
    numbers = scene.begin()
    begun = now_ns()
    scene.lost.kill()
    scene.expect_all(scene.others, [numbers[rank] for rank in scene.others], begun,
                     codes=["UNAVAILABLE"], culprits=[scene.victim], bound_ms=DEATH_MS)
    return job.rebuild(scene.survivors)


def leave_while_joining(scene, leave, codes, bound_ms=LEFT_MS + SLACK_MS):
    """The victim is there, and goes before the last one comes. The command that it was in."""
    numbers, begun = fail_while_joining(scene, scene.others[-1], leave)
    for rank in scene.others:
        answer = scene.ranks[rank].answer(numbers[rank])
        scene.expect(rank, answer, begun, codes=codes, culprits=[scene.victim],
                     bound_ms=bound_ms)
    scene.job.rebuild(scene.survivors)
    return numbers[scene.victim]


def fail_while_joining(scene, late, fail):
    """All but `late` are there, then it happens, then that one comes. The commands, by rank, and
    when it happened."""
    scene.job.group_count += 1
    name = f"group-{scene.job.group_count}"
    numbers = {}

    def begin(rank):
        numbers[rank] = scene.ranks[rank].begin("join", name, rank, len(scene.ranks), LEFT_MS)

    for rank in range(len(scene.ranks)):
        if rank != late:
            begin(rank)
    time.sleep(BUSY_S)
    begun = now_ns()
    fail()
    begin(late)
    return numbers, begun


def stop_while_joining(scene):
    number = leave_while_joining(scene, lambda: scene.lost.signal(signal.SIGSTOP), ["TIMEOUT"])
    scene.lost.signal(signal.SIGCONT)
    if scene.lost.answer(number)["code"] == "OK":
        raise Wrong("the rank that was stopped has joined a group that the others gave up")
    scene.job.rebuild(scene.ranks)


def sigstop(scene):
    if scene.place == "joining":
        return stop_while_joining(scene)
    scene.timeout_ms = OPERATION_MS
    numbers = scene.begin()
    begun = now_ns()
    scene.lost.signal(signal.SIGSTOP)
    # The states of another host's processes are not known.
    state = ": its process is stopped" if len(set(scene.job.hosts)) == 1 else ""
    scene.expect_all(scene.others, [numbers[rank] for rank in scene.others], begun,
                     codes=["TIMEOUT"], culprits=[scene.victim], bound_ms=LATE_MS,
                     words=[f"does not answer{state}"])
    scene.job.rebuild(scene.survivors)
    scene.lost.signal(signal.SIGCONT)
    answer = scene.end_of(scene.victim, numbers[scene.victim])
    if answer["code"] == "OK":
        raise Wrong("the rank that was stopped went on in a group that has failed")
    return scene.job.rebuild(scene.ranks)


# --- The wire between two hosts

def of_other_host(scene, rank):
    host = scene.job.hosts[rank]
    return [other for other, where in enumerate(scene.job.hosts) if where is not host]


def break_wire(scene, break_it, codes, bound_ms):
    numbers = scene.begin()
    begun = now_ns()
    break_it()
    numbers = [rank.begin("sum", SHORT, scene.timeout_ms) if number is None else number
               for rank, number in zip(scene.ranks, numbers)]
    for rank, number in enumerate(numbers):
        answer = scene.ranks[rank].answer(number, 0 if scene.place == "idle" else 1)
        # Who was told by a rank of its own host is told of the other one.
        scene.expect(rank, answer, begun, codes=codes, culprits=of_other_host(scene, rank),
                     bound_ms=bound_ms)


def break_while_joining(scene, break_it, far_codes=()):
    """The last one comes where the store is. There the ranks beyond the wire are named; these name
    the store, which they have lost. Without codes for them they are not looked at: a store that
    does not answer is waited for beyond the deadline (TcpStoreOptions::answer_timeout)."""
    numbers, begun = fail_while_joining(scene, 0, break_it)
    far = of_other_host(scene, 0)
    for rank, program in enumerate(scene.ranks):
        if rank not in far:
            scene.expect(rank, program.answer(numbers[rank]), begun, codes=["TIMEOUT"],
                         culprits=far, bound_ms=LEFT_MS + SLACK_MS)
        elif far_codes:
            scene.expect(rank, program.answer(numbers[rank]), begun, codes=far_codes, culprits=[],
                         bound_ms=LEFT_MS + SLACK_MS, words=[scene.job.endpoint])


def cut_while_joining(scene):
    """The last one comes where its host knows already that the link is down."""
    def cut():
        scene.wire.cut()
        scene.wire.await_loss()

    numbers, begun = fail_while_joining(scene, 0, cut)
    far = of_other_host(scene, 0)
    for rank, program in enumerate(scene.ranks):
        if rank not in far:
            scene.expect(rank, program.answer(numbers[rank]), begun, codes=["UNAVAILABLE"],
                         culprits=[], bound_ms=LEFT_MS + SLACK_MS,
                         words=[f"network interface '{WIRE}' has no carrier"])


def lose_wire(scene, break_it, break_while_joining):
    scene.timeout_ms = OPERATION_MS
    if scene.place == "joining":
        break_while_joining(scene)
    else:
        break_wire(scene, break_it, ["TIMEOUT"], LATE_MS)
    far = of_other_host(scene, 0)
    # These have the store.
    scene.job.rebuild([rank for number, rank in enumerate(scene.ranks) if number not in far])
    if scene.place == "joining":
        # Not in the middle of making its engine: UCX would leave a queue behind (ADR 35).
        for rank in far:
            scene.ranks[rank].discard()
    scene.wire.mend()
    if scene.place == "joining":
        for rank in far:
            scene.job.renew(rank)
            scene.closed.append(scene.ranks[rank])  # it was not there when possessions were counted
    scene.job.rebuild(scene.ranks)


def half_open(scene):
    swallow = scene.wire.swallow
    lose_wire(scene, swallow, lambda scene: break_while_joining(scene, swallow))


def link_down(scene):
    lose_wire(scene, scene.wire.cut, cut_while_joining)


def reset(scene):
    """Of the connections between ranks; while they join there are those to the store alone."""
    if scene.place == "joining":
        break_while_joining(scene, scene.wire.reset, ["UNAVAILABLE"])
        scene.job.connect([scene.ranks[rank] for rank in of_other_host(scene, 0)])
    else:
        break_wire(scene, lambda: scene.wire.reset(scene.job.port), ["UNAVAILABLE"], DEATH_MS)
    scene.job.rebuild(scene.ranks)


# --- The store

def store_killed(scene):
    job = scene.job
    if scene.place == "joining":
        numbers = job.begin_join(scene.ranks[:-1], of=len(scene.ranks))
        time.sleep(BUSY_S)
        begun = now_ns()
        job.server.kill()
        expect_lost_store(scene, numbers, begun)
        return serve_again(scene)
    numbers = scene.begin()
    job.server.kill()
    if numbers[0] is None:
        job.sum(scene.ranks)
    else:
        go_on_without_store(scene, numbers)
    begun = now_ns()
    expect_lost_store(scene, job.begin_join(scene.ranks), begun)
    return serve_again(scene)


def go_on_without_store(scene, numbers):
    """Sums that go on for as long as a lost store would be noticed in."""
    time.sleep(0.5)
    for rank, number in enumerate(numbers):
        if len(scene.ranks[rank].answers[number]) > 1:
            raise Wrong(f"rank {rank}: {scene.ranks[rank].answers[number][1]['words']}")
    scene.lost.do("abort", "enough")
    for rank, number in enumerate(numbers):
        scene.ranks[rank].answer(number, 1)


def expect_lost_store(scene, numbers, begun):
    for rank, number in enumerate(numbers):
        scene.expect(rank, scene.ranks[rank].answer(number), begun, codes=["UNAVAILABLE"],
                     culprits=[], bound_ms=DEATH_MS, words=["store", scene.job.endpoint])


def serve_again(scene):
    """Ranks get another store, and go on."""
    job = scene.job
    job.server = job.start(job.hosts[0], "cpu:0")
    job.server.do("serve", job.endpoint, job.token)
    job.connect(scene.ranks)
    job.leave(scene.ranks)  # their group is of the store that was lost
    job.rebuild(scene.ranks)


def port_taken(scene):
    job = scene.job
    second = job.start(job.hosts[0], "cpu:0")
    begun = now_ns()
    answer = second.answer(second.begin("serve", job.endpoint, job.token))
    scene.expect(0, answer, begun, codes=["UNAVAILABLE"], culprits=[], bound_ms=ABORT_MS,
                 words=[job.endpoint, "in use"])
    job.rebuild(scene.ranks)


# --- Calls that differ

def call_apart(scene, own, theirs, codes, bound_ms, words):
    """The victim calls what `own` says and the others something else."""
    scene.job.join(scene.ranks)
    begun = now_ns()
    numbers = [rank.begin(*(own if number == scene.victim else theirs))
               for number, rank in enumerate(scene.ranks) if number != scene.victim or own]
    asked = range(len(scene.ranks)) if own else scene.others
    everyone = range(len(scene.ranks))
    for rank, number in zip(asked, numbers):
        scene.expect(rank, scene.ranks[rank].answer(number), begun, codes=codes,
                     culprits=[scene.victim] if not own else everyone, bound_ms=bound_ms,
                     words=words)


def failure_of(program):
    """None: its group has not failed."""
    answer = program.answer(program.begin("failure"))
    return answer if answer["code"] != "OK" else None


def skipped(scene):
    """All but the victim call the second sum."""
    call_apart(scene, (), ("sum", scene.count, OPERATION_MS), ["TIMEOUT"], LATE_MS,
               ["never entered"])
    told = wait_until(lambda: failure_of(scene.lost), "word to the rank that skipped")
    if told["code"] != "TIMEOUT" or told["culprits"] != [scene.victim]:
        raise Wrong(f"the rank that skipped was told {told}")
    scene.job.rebuild(scene.ranks)


def swapped(scene):
    """In a sum every rank is sent something, the one that calls a broadcast, too."""
    call_apart(scene, ("call", "broadcast", scene.count, JOIN_MS),
               ("call", "sum", scene.count, JOIN_MS), ["INVALID_ARGUMENT"], ABORT_MS,
               ["broadcast", "all_reduce"])
    scene.job.rebuild(scene.ranks)


def mismatched(scene):
    own, words = {
        "dtype": (("int_sum", SHORT), ["i32", "f32"]),
        "reduction": (("max", SHORT), ["max", "sum"]),
        "count": (("sum", SHORT + 1), [str(SHORT), str(SHORT + 1)]),
        "8 MiB sum": (("sum", LONG + 1), [str(LONG), str(LONG + 1)]),
        "at the deadline": (("sum", SHORT + 1), [f"f32 {SHORT}", f"f32 {SHORT + 1}"]),
        "by the device": (("sum", SHORT + 1), [f"of {SHORT} elements", f"of {SHORT + 1} elements"]),
    }[scene.place]
    timeout_ms, bound_ms = JOIN_MS, ABORT_MS
    if scene.place == "at the deadline":
        timeout_ms, bound_ms = OPERATION_MS, LATE_MS
    call_apart(scene, ("call", *own, timeout_ms), ("call", "sum", scene.count, timeout_ms),
               ["INVALID_ARGUMENT"], bound_ms, words)
    scene.job.rebuild(scene.ranks)


def variables_of(cell):
    """Of ranks whose devices are linked. Libraries of chips do not compare what their ranks have
    called, so that ranks do it: in check mode before they begin, else at the deadline, where that
    hangs. The library of npu itself does compare."""
    if cell["place"] == "by the device":
        return {}
    if cell["place"] == "at the deadline":
        return {"BACKPLANE_PLUGIN_OPTIONS": "npu.collective_mismatch=hangs"}
    if cell["fault"] in ("operations swapped", "operation mismatched") or \
            cell["place"] == "after a failure":
        return {"BACKPLANE_PLUGIN_OPTIONS": "npu.collective_mismatch=passes",
                "BACKPLANE_CCL_CHECK": "1"}
    return {}


# --- Ranks that give up

def abort(scene):
    if scene.place == "joining":
        scene.closed.append(scene.lost)
        return leave_while_joining(scene, lambda: scene.lost.do("close"), ["UNAVAILABLE"],
                                   bound_ms=ABORT_MS)
    if scene.place == "after a failure":
        return abort_after_failure(scene)
    numbers = scene.begin()
    begun = now_ns()
    scene.lost.do("abort", "a key was pressed", within_s=2)
    scene.expect_all(scene.others, [numbers[rank] for rank in scene.others], begun,
                     codes=["CANCELLED"], culprits=[scene.victim], bound_ms=ABORT_MS,
                     words=["a key was pressed"])
    return scene.job.rebuild(scene.ranks)


def abort_after_failure(scene):
    """It changes nothing, on the rank that aborts and on the others."""
    swapped_words = ["broadcast", "all_reduce"]
    call_apart(scene, ("call", "broadcast", SHORT, JOIN_MS), ("call", "sum", SHORT, JOIN_MS),
               ["INVALID_ARGUMENT"], ABORT_MS, swapped_words)
    begun = now_ns()
    scene.lost.do("abort", "too late", within_s=2)
    for rank, program in enumerate(scene.ranks):
        scene.expect(rank, program.answer(program.begin("failure")), begun,
                     codes=["INVALID_ARGUMENT"], culprits=range(len(scene.ranks)),
                     bound_ms=ABORT_MS, words=swapped_words)
    scene.job.rebuild(scene.ranks)


# --- What a process runs out of

def exhausted(scene, what, spares, codes):
    """The victim has less and less to spare than it needs to join; the last try goes well."""
    failed_count = 0
    for spare in spares:
        scene.lost.do("limit", what, spare)
        begun = now_ns()
        numbers = scene.job.begin_join(scene.ranks, IMPATIENT_MS)
        answers = [rank.answer(number) for rank, number in zip(scene.ranks, numbers)]
        scene.lost.do("unlimit")
        if all(answer["code"] == "OK" for answer in answers):
            break
        failed_count += 1
        scene.expect(scene.victim, answers[scene.victim], begun, codes=codes, culprits=[],
                     bound_ms=IMPATIENT_MS + SLACK_MS)
        for rank in scene.others:
            scene.expect(rank, answers[rank], begun, codes=["UNAVAILABLE", "TIMEOUT"],
                         culprits=[scene.victim], bound_ms=IMPATIENT_MS + SLACK_MS)
        scene.job.leave(scene.ranks)
    else:
        raise Wrong(f"not even {spares[-1]} to spare are enough: {scene.words}")
    if failed_count == 0:
        raise Wrong("nothing was exhausted")
    scene.job.rebuild(scene.ranks)


def fds_exhausted(scene):
    if scene.place == "joining":
        return exhausted(scene, "fds", range(0, 96, 3), ["UNAVAILABLE", "OUT_OF_MEMORY"])
    scene.job.join(scene.ranks)
    scene.lost.do("limit", "fds", 0)
    begun = time.monotonic()
    while time.monotonic() - begun < LOOKS_S:
        scene.job.sum(scene.ranks, scene.count)
    scene.lost.do("unlimit")
    scene.words = "operations need none"
    return scene.job.rebuild(scene.ranks)


def memory_exhausted(scene):
    if scene.place == "joining":
        return exhausted(scene, "memory", (0, 2, *range(4, 16), 16, 32, 64, 128, 256),
                         ["UNAVAILABLE", "OUT_OF_MEMORY"])
    scene.job.join(scene.ranks)
    scene.lost.do("limit", "memory", 0)
    begun = now_ns()
    numbers = [rank.begin("sum", LONG, OPERATION_MS) for rank in scene.ranks]
    answers = [rank.answer(number) for rank, number in zip(scene.ranks, numbers)]
    scene.lost.do("unlimit")
    # It has failed before it took part: the others learn where it is at their deadline, unless
    # its engine has no memory to answer them and breaks the connection.
    scene.expect(scene.victim, answers[scene.victim], begun, codes=["OUT_OF_MEMORY"], culprits=[],
                 bound_ms=LATE_MS)
    for rank in scene.others:
        scene.expect(rank, answers[rank], begun, codes=["OUT_OF_MEMORY", "TIMEOUT", "UNAVAILABLE"],
                     culprits=[scene.victim], bound_ms=LATE_MS)
    return scene.job.rebuild(scene.ranks)


FAULTS = {
    "SIGKILL": sigkill,
    "SIGSTOP": sigstop,
    "half-open": half_open,
    "link down": link_down,
    "RST": reset,
    "store killed": store_killed,
    "port taken": port_taken,
    "operation skipped": skipped,
    "operations swapped": swapped,
    "operation mismatched": mismatched,
    "abort": abort,
    "fds exhausted": fds_exhausted,
    "memory exhausted": memory_exhausted,
}
