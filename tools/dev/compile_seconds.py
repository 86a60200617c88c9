# SPDX-License-Identifier: Apache-2.0
"""How long a build compiled, from ninja's own log.

compile_seconds.py BUILD: prints one line and writes it, with the parts by folder, to
BUILD/reports/compile-seconds.txt, if the last run of ninja made almost all objects; else it prints
nothing and leaves the file of an earlier run. Seconds are those of each compiler added up, linking
left out, so they say more than the wall clock does on a machine with other work. What came from
ccache took almost none, so the line counts it: only "0 from ccache" is a cold build. The count is
that of BUILD/ccache.log, where the compilers of that run wrote (CCACHE_STATSLOG).
"""

import collections
import pathlib
import sys

# Of all objects, the part that one run must have made to be told of.
WHOLE = 0.9


def read_log(text):
    """Of each object in the log its (seconds, start in ms), in the order of the log."""
    entries = []
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[3].endswith((".o", ".gch", ".pch")):
            start, end = int(fields[0]), int(fields[1])
            entries.append((fields[3], (end - start) / 1000, end))
    return entries


def last_run(entries):
    """Each run counts its milliseconds from zero, so a run begins where the ends go back."""
    begin = 0
    for i in range(1, len(entries)):
        if entries[i][2] < entries[i - 1][2]:
            begin = i
    return {name: seconds for name, seconds, _ in entries[begin:]}


def ccache_hits(text):
    """How many objects came from the cache, by ccache's log of its counters."""
    return sum(line in ("direct_cache_hit", "preprocessed_cache_hit") for line in text.splitlines())


def summary(entries, hits):
    """The report's text, or None where the last run made only some of the objects."""
    run = last_run(entries)
    known = {name for name, _, _ in entries}
    if not run or len(run) < WHOLE * len(known):
        return None
    parts = collections.Counter()
    for name, seconds in run.items():
        folder = name.split("CMakeFiles/")[0].rstrip("/") or "precompiled headers"
        parts[folder] += seconds
    first = f"{sum(run.values()):.0f} compile-seconds for {len(run)} objects, {hits} from ccache"
    return "\n".join([first] + [f"{seconds:8.1f} {name}" for name, seconds in parts.most_common()])


def main(build):
    build = pathlib.Path(build)
    try:
        log = build / "ccache.log"  # absent: nothing asked ccache
        hits = ccache_hits(log.read_text(encoding="utf-8")) if log.is_file() else 0
        text = summary(read_log((build / ".ninja_log").read_text(encoding="utf-8")), hits)
    except OSError as error:
        print(f"compile_seconds: {error}", file=sys.stderr)
        return 1
    if text is not None:
        folder = build / "reports"
        folder.mkdir(exist_ok=True)
        (folder / "compile-seconds.txt").write_text(text + "\n", encoding="utf-8")
        print(f"{build.name}: {text.splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
