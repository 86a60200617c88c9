# SPDX-License-Identifier: Apache-2.0
"""`backplane ccl trace`: what the dumps of ranks say together, and `backplane ccl status`: what
processes answer. Dumps and answers are written here from their description, and not by groups.

    ccl_cli_test.py BIN_FOLDER DIGITS_FOLDER [UNITTEST_ARGUMENT...]
"""

import contextlib
import json
import pathlib
import socket
import sys
import threading
import unittest

import cli_test
from cli_test import FAILED, MODEL, OK, USAGE

START_NS = 1_700_000_000_000_000_000
TIMEOUT_NS = 600_000_000_000
COUNT = 1 << 20


def entry(number, group, epoch, state, created_ns):
    """An all_reduce, the `number`th of the group."""
    is_over = state in ("completed", "failed")
    started_ns = 0 if state == "scheduled" else created_ns + 1000
    row = {
        "record_id": number - 1, "pg_id": 7, "process_group": [group, f"epoch {epoch}"],
        "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number - 1,
        "profiling_name": "xccl:all_reduce", "time_created_ns": created_ns,
        "time_discovered_started_ns": started_ns,
        "time_discovered_completed_ns": created_ns + 2000 if is_over else 0,
        "input_sizes": [[COUNT]], "input_dtypes": ["f32"],
        "output_sizes": [[COUNT]], "output_dtypes": ["f32"],
        "state": state, "retired": is_over, "timeout_ms": TIMEOUT_NS // 10**6, "is_p2p": False,
        "kind": "all_reduce", "dtype": "f32", "reduction": "sum", "root": 0, "count": COUNT,
        "deterministic": False, "send_bytes": 4 * COUNT, "recv_bytes": 4 * COUNT,
        "timeout_ns": TIMEOUT_NS, "path": "host",
        "error": "TIMEOUT" if state == "failed" else "OK",
    }
    return row | ({"duration_ms": 0.001} if is_over else {})


def dump(rank, rank_count, states, group="world", epoch=0, lag_ns=0):
    """What a rank would write whose operations came into these states."""
    entries = [entry(number, group, epoch, state, START_NS + number * 10**9 + lag_ns)
               for number, state in enumerate(states, 1)]

    def last(*wanted):
        return max((number for number, state in enumerate(states, 1) if state in wanted), default=0)

    return {
        "format": "backplane-ccl-dump-1", "version": "2.10",
        "pg_config": {group: {"name": group, "desc": f"epoch {epoch}",
                              "ranks": str(list(range(rank_count)))}},
        "pg_status": {"7": {
            "last_enqueued_collective": len(states),
            "last_started_collective": last("started", "completed", "failed"),
            "last_completed_collective": last("completed")}},
        "group": group, "group_id": 7, "epoch": epoch, "rank": rank, "rank_count": rank_count,
        "job_ranks": [], "host": f"host{rank}", "process_id": 100 + rank,
        "time_dumped_ns": START_NS + 10**12,
        "error": {"code": "OK", "words": "", "culprits": []},
        "entries": entries,
    }


class TraceTest(cli_test.CommandTest):
    def write(self, *dumps):
        """Paths by rank."""
        return [self.file(f"{each['group']}-{each['epoch']}-rank{each['rank']}.json",
                          json.dumps(each).encode()) for each in dumps]

    def hung(self):
        """Rank 3 is in none but the first 117."""
        done = ["completed"] * 117
        return self.write(*(dump(rank, 4, done + ["started"] * (rank < 3)) for rank in range(4)))

    def trace(self, exit_code, *arguments):
        result = cli_test.run("ccl", "trace", *arguments)
        self.assertEqual((result.returncode, result.stderr), (exit_code, ""), result.stdout)
        return result.stdout

    def test_all_is_well(self):
        paths = self.write(*(dump(rank, 2, ["completed"] * 5, lag_ns=rank * 3_000_000)
                             for rank in range(2)))
        lines = self.trace(OK, *paths).splitlines()
        self.assertEqual(lines[:2], ["world: all ranks completed seq 5", ""])
        self.assertEqual(lines[2].split(), ["group", "rank", "last", "entered", "last", "completed",
                                            "lag", "host", "process"])
        self.assertEqual(lines[4].split(), ["world", "1", "5", "5", "3.00", "ms", "host1", "101"])
        self.assertEqual(len(lines), 5)

    def test_who_never_entered_is_named(self):
        self.hung()
        sentence = "world: rank 3 never entered seq 118 all_reduce sum f32 1 Mi; last 117"
        text = self.trace(FAILED, self.folder)
        self.assertEqual(text.splitlines()[0], sentence)
        self.assertEqual(len(text.splitlines()), 1 + 1 + 5)

    def test_json(self):
        found = json.loads(self.trace(FAILED, *self.hung(), "--json"))
        self.assertFalse(found["ok"])
        self.assertEqual(found["findings"], [{
            "kind": "never_entered", "fault": True, "group": "world", "epoch": 0, "sequence": 118,
            "ranks": [3],
            "words": "rank 3 never entered seq 118 all_reduce sum f32 1 Mi; last 117"}])
        self.assertEqual(len(found["ranks"]), 4)
        self.assertEqual(found["ranks"][3], {
            "group": "world", "epoch": 0, "rank": 3, "job_rank": 3, "host": "host3",
            "process_id": 103, "last_entered": 117, "last_completed": 117, "lag_ms": 0})
        paths = self.write(dump(0, 1, [], group="alone"))
        found = json.loads(self.trace(OK, "--json", *paths))
        self.assertTrue(found["ok"])
        self.assertIsNone(found["ranks"][0]["lag_ms"])
        self.assertEqual([each["fault"] for each in found["findings"]], [False])

    def test_a_missing_dump_is_a_fault(self):
        text = self.trace(FAILED, *self.hung()[:3])
        self.assertIn("world: rank 3 gave no dump, 3 of 4 did\n", text)

    def test_files_and_folders_together(self):
        self.write(*(dump(rank, 2, ["completed"]) for rank in range(2)))
        other = self.folder / "other"
        other.mkdir()
        paths = [path.rename(other / path.name) for path in self.write(
            *(dump(rank, 2, ["completed", "failed"], "tp", epoch=2) for rank in range(2)))]
        text = self.trace(FAILED, self.folder, *paths)
        self.assertIn("tp epoch 2: seq 2 all_reduce sum f32 1 Mi failed: ranks 0 and 1 with "
                      "TIMEOUT\n", text)
        self.assertIn("world: all ranks completed seq 1\n", text)

    def test_what_cannot_be_read_is_named(self):
        good = self.write(dump(0, 1, ["completed"]))[0]
        wrong = dump(0, 1, ["completed"])
        wrong["entries"][0]["root"] = "none"
        broken = self.file("broken.json", json.dumps(wrong).encode())
        self.check(MODEL, "ccl", "trace", good, broken,
                   words=["backplane ccl trace: ", "broken.json", "/entries/0/root: expected a "
                          "whole number"])
        self.check(MODEL, "ccl", "trace", self.folder / "nosuch", words=["nosuch: cannot open"])
        empty = self.folder / "empty"
        empty.mkdir()
        self.check(MODEL, "ccl", "trace", empty, words=["empty", "there is no dump"])
        self.check(MODEL, "ccl", "trace", good, good, words=["are both of rank 0 of group world"])
        self.check(MODEL, "ccl", "trace", self.file("y.json", b"\x1b[31m"), words=["y.json"])

    def test_names_cannot_draw_on_the_terminal(self):
        paths = self.write(dump(0, 2, [], group="a"))
        text = paths[0].read_text(encoding="utf-8").replace('"a"', '"\\u001b[31ma\\nb"')
        output = self.trace(FAILED, self.file("x.json", text.encode()))
        self.assertNotIn("\x1b", output)
        self.assertEqual(output.splitlines()[0], " [31ma b: rank 1 gave no dump, 1 of 2 did")


class StatusTest(cli_test.CommandTest):
    """Sockets are served here; groups that serve theirs are ccl_group_test's."""
    GROUP = {"group": "world", "epoch": 1, "rank": 0, "rank_count": 2, "device": "npu:0",
             "last_entered": 3, "last_started": 3, "last_completed": 2,
             "operation": "all_reduce sum f32 8", "sequence": 3, "since_ns": 1_000_000_000,
             "error": {"code": "OK", "words": "", "culprits": []},
             "peers": [{"rank": 1, "heard_ns": 2_500_000_000, "lost": ""}]}

    def serve(self, name, answer):
        path = self.folder / name
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(str(path))
        server.listen()

        def run():
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as client:
                        client.sendall(answer)
        threading.Thread(target=run, daemon=True).start()
        return path

    @staticmethod
    def document(process_id, *groups):
        return json.dumps({"format": "backplane-ccl-status-1", "host": "host1",
                           "process_id": process_id, "time_ns": 3_000_000_000,
                           "groups": groups}).encode()

    def status(self, exit_code, *arguments):
        result = cli_test.run("ccl", "status", *arguments)
        self.assertEqual((result.returncode, result.stderr), (exit_code, ""), result.stdout)
        return result.stdout

    def test_words(self):
        path = self.serve("x.sock", self.document(7, self.GROUP))
        self.assertEqual(self.status(OK, path).splitlines(), [
            "process 7 on host1",
            "  group world epoch 1: rank 0 of 2 on npu:0, entered 3, completed 2",
            "    in all_reduce sum f32 8 as number 3 for 2.0 s",
            "    rank 1 was heard 0.5 s ago"])

    def test_folder_and_json(self):
        failed = {**self.GROUP, "error": {"code": "TIMEOUT", "words": "late\x1b", "culprits": [1]}}
        self.serve("backplane-7.sock", self.document(7, self.GROUP))
        self.serve("backplane-8.sock", self.document(8, failed))
        text = self.status(FAILED, self.folder)
        self.assertIn("process 8 on host1\n", text)
        self.assertIn("    has failed: TIMEOUT: late", text)
        self.assertNotIn("\x1b", text)
        found = json.loads(self.status(FAILED, self.folder, "--json"))
        self.assertEqual([each["process_id"] for each in found["processes"]], [7, 8])
        self.assertEqual(found["processes"][0]["groups"], [self.GROUP])

    def test_what_does_not_answer_is_named(self):
        self.check(MODEL, "ccl", "status", self.folder / "nosuch",
                   words=["backplane ccl status: ", "nosuch", "No such file"])
        self.check(MODEL, "ccl", "status", self.folder, words=["no process serves one"])
        self.check(MODEL, "ccl", "status", self.file("x", b""), words=["expected a socket"])
        self.check(MODEL, "ccl", "status", self.serve("g.sock", b"garbage"),
                   words=["g.sock", "no status of a process"])


class UsageTest(cli_test.CommandTest):
    def test_usage(self):
        self.check(USAGE, "ccl", words=["Usage: backplane ccl", "trace"])
        self.check(USAGE, "ccl", "trace", words=["DUMP", "See `backplane ccl trace --help`"])
        self.check(USAGE, "ccl", "trce", "x", words=["'trce'", "did you mean trace?"])
        self.check(USAGE, "cll", words=["did you mean ccl?"])
        self.check(USAGE, "ccl", "trace", "x", "--jsn", words=["'--jsn'", "did you mean --json?"])
        self.check(USAGE, "--json", "ccl", "trace", "x",
                   words=["--json belongs behind the command ccl trace"])
        self.check(USAGE, "ccl", "trace", "", words=["DUMP: expected a file, found ''"])
        self.check(USAGE, "ccl", "status", words=["PATH", "See `backplane ccl status --help`"])
        self.check(OK, "ccl", "--help", words=["trace", "status", "Exit codes"])
        self.check(OK, "ccl", "trace", "--help", words=["DUMP", "--json", "Exit codes"])


if __name__ == "__main__":
    cli_test.BIN, cli_test.DIGITS = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
