# SPDX-License-Identifier: Apache-2.0
"""A job of the fault table: a process that serves the store, and a process for each rank."""

import pathlib
import secrets
import socket

from fault_ranks import Program, Wrong, wait_until

DEVICES = ("cpu:0", "npu:0", "cpu:0", "cpu:0")  # of the ranks, which send each other messages
SHORT = 100
LONG = 2 << 20  # of f32: 8 MiB, which stay in their sender's memory until they are taken
BYTES_OF_F32 = 4
JOIN_MS = 20_000  # for what does not end by its deadline
OPERATION_MS = 2_000  # for what does
INQUIRY_MS = 1_000
SLACK_MS = 1_000  # beyond a deadline, of processes that share two processors with others
RECOVERY_S = 15


def free_port(address):
    with socket.create_server((address, 0)) as server:
        return server.getsockname()[1]


class Job:
    """Ranks are numbered through the hosts: the first ones are where the store is."""

    def __init__(self, program, hosts, folder, devices=DEVICES, variables=None):
        self.program = program
        self.variables = variables or {}
        self.devices = devices[:len(hosts)]
        self.folder = pathlib.Path(folder)
        self.hosts = hosts  # of each rank
        self.programs = []
        self.pids = set()  # of all of them, ever
        self.group_count = 0
        self.group = []  # the ranks of the last group, each of which may have left
        self.outside = set()  # those of them that have left it
        self.rebuilt_count = 0
        self.port = 4711 if hosts[0].enter else free_port(hosts[0].address)
        self.token = self.folder / "token"
        self.token.touch(mode=0o600)
        self.token.write_text(secrets.token_hex(32) + "\n")
        self.before = {host: host.shared_memory() for host in set(hosts)}
        try:
            self.server = self.start(hosts[0], "cpu:0")
            self.server.do("serve", self.endpoint, self.token)
            self.ranks = [self.start(*where) for where in zip(hosts, self.devices)]
            self.connect(self.ranks)
        except Wrong:
            self.discard()
            raise

    @property
    def endpoint(self):
        return f"{self.hosts[0].address}:{self.port}"

    def start(self, host, device):
        log = self.folder / f"log.{len(self.programs)}"
        self.programs.append(Program(self.program, host, device, log, self.variables))
        self.pids.add(self.programs[-1].pid)
        return self.programs[-1]

    def renew(self, number):
        """Another process in the place of this rank's, which is killed if it still lives."""
        old = self.ranks[number]
        old.discard()
        self.programs.remove(old)
        self.ranks[number] = self.start(self.hosts[number], old.device)
        self.connect([self.ranks[number]])

    def connect(self, ranks):
        self.all_do(ranks, "connect", self.endpoint, self.token, JOIN_MS)

    def all_do(self, ranks, *words, within_s=60):
        """All at once, and each well."""
        numbers = [rank.begin(*words) for rank in ranks]
        for rank, number in zip(ranks, numbers):
            answer = rank.answer(number, within_s=within_s)
            if answer["code"] != "OK":
                raise Wrong(f"rank {self.ranks.index(rank)}: {words[0]}: {answer['words']}")

    def begin_join(self, ranks, timeout_ms=JOIN_MS, of=None):
        """A new group of these, numbered in this order, and of as many more as make it `of`; the
        numbers of the commands."""
        self.group_count += 1
        return [rank.begin("join", f"group-{self.group_count}", number, of or len(ranks),
                           timeout_ms) for number, rank in enumerate(ranks)]

    def join(self, ranks):
        self.all_have(ranks, self.begin_join(ranks), "join")

    def all_have(self, ranks, numbers, what):
        """A group of these, in this order."""
        for rank, number in zip(ranks, numbers):
            answer = rank.answer(number)
            if answer["code"] != "OK":
                raise Wrong(f"rank {self.ranks.index(rank)} cannot {what}: {answer['words']}")
        self.group, self.outside = list(ranks), set()

    def leave(self, ranks):
        self.outside.update(ranks)
        self.all_do(ranks, "leave", within_s=RECOVERY_S)

    def begin_sums(self, count, ranks=None, timeout_ms=JOIN_MS):
        """Until all are in the middle of them."""
        ranks = self.ranks if ranks is None else ranks
        numbers = [rank.begin("sums", count, timeout_ms) for rank in ranks]
        for rank, number in zip(ranks, numbers):
            answer = rank.answer(number)
            if answer["code"] != "OK":
                raise Wrong(f"a sum before the fault: {answer['words']}")
        return numbers

    def sum(self, ranks, count=SHORT):
        self.all_do(ranks, "sum", count, JOIN_MS)

    def rebuild(self, ranks):
        """The ranks that are left rebuild their group, and compute a right sum in it. Where they
        have none, since that is what failed or one of them has left it, they make another one."""
        if all(rank in self.group and rank not in self.outside for rank in ranks):
            members = [self.group.index(rank) for rank in ranks]
            self.all_have(ranks, [rank.begin("rebuild", JOIN_MS, *members) for rank in ranks],
                          "rebuild")
            self.rebuilt_count += 1
        else:
            self.leave(ranks)
            self.join(ranks)
        self.sum(ranks)
        self.sum(ranks, LONG)
        self.leave(ranks)

    def warm_up(self):
        """A group before the faulty one; what the ranks have afterwards they keep. With two hosts
        the bytes of the sum are counted on the wire."""
        wired = [self.hosts[0], self.hosts[-1]] if self.hosts[0] is not self.hosts[-1] else []
        self.join(self.ranks)
        self.sum(self.ranks)
        before = [host.sent_bytes() for host in wired]
        self.sum(self.ranks, LONG)
        for host, sent in zip(wired, before):
            payload = LONG * BYTES_OF_F32
            over = host.sent_bytes() - sent
            if not payload <= over <= 3 * payload * len(self.ranks):
                raise Wrong(f"{host.name} sent {over} bytes over the wire for a sum of {payload}")
        self.check_ways()
        self.leave(self.ranks)
        self.had = {rank: rank.possessions() for rank in self.ranks}

    def linked(self, rank):
        """Those of the rank's own host that it is linked with."""
        return [other for other, where in enumerate(zip(self.hosts, self.devices))
                if where == (self.hosts[rank], "npu:0") and self.devices[rank] == "npu:0"]

    def check_ways(self):
        """Linked devices are at work where there are any, alone where all are."""
        for number, rank in enumerate(self.ranks):
            found = rank.do("native")
            linked = len(self.linked(number))
            if (found["value"] > 0, not found["words"]) != (linked > 1, linked == len(self.ranks)):
                raise Wrong(f"rank {number} is linked with {linked} of {len(self.ranks)} ranks: "
                            f"{found['value']} operations were native, {found['words']!r}")

    def check_possessions(self, ranks):
        for rank in ranks:
            # Threads that make calls of a device are kept, one for each call in progress. Linked
            # ranks have one or two more of these at once than the sums before had.
            more = 2 if len(self.linked(self.ranks.index(rank))) > 1 else 0

            def is_as_before(rank=rank, more=more):
                had, found = self.had[rank], rank.possessions()
                return (found["descriptors"] == had["descriptors"] and
                        found["threads"] <= had["threads"] + more)
            try:
                wait_until(is_as_before, "", 5)
            except Wrong:
                raise Wrong(f"rank {self.ranks.index(rank)} had {self.had[rank]}, and has "
                            f"{rank.possessions()} afterwards") from None

    def end(self, survivors):
        """All that lives ends well and leaves nothing."""
        for program in self.programs:
            if program.process.poll() is None:
                code = program.end()
                if code != 0:
                    raise Wrong(f"{program}: {program.last_words()}")
            elif program in survivors:
                raise Wrong(f"{program} has ended: {program.last_words()}")
        for host, names in self.before.items():
            wait_until(lambda host=host, names=names: host.shared_memory(self.pids) <= names,
                       f"shared memory is left on {host.name}", 30)
            if host.enter and host.processes():
                raise Wrong(f"{host.name} still has {host.processes()}")

    def logs(self):
        """What the processes have said."""
        return "".join(f"  {program}: {line}\n" for program in self.programs
                       for line in program.log.read_text(errors="replace").splitlines()[-20:])

    def discard(self):
        for program in self.programs:
            program.discard()
