# SPDX-License-Identifier: Apache-2.0
"""Plugins of other wheels: entry points of installed packages, which are written here as pip would.
tests/wheel has one that pip installs."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import backplane as bp

INSTALLED = pathlib.Path(bp.__file__).parent / "bin" / "backplane"
ENTRY_FOLDER = "import pathlib\nfolder = pathlib.Path(__file__).parent / 'plugins'\n"


class Wheels:
    """A folder of installed packages, each with a plugin: npu under another id."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, package, value, source=""):
        home = self.folder / package
        home.mkdir()
        (home / "__init__.py").write_text(source)
        info = self.folder / f"{package}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[backplane.plugins]\n{package} = {value}\n")
        return home

    def run(self, code, **environment):
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            timeout=120,
            env={
                **os.environ,
                "PYTHONPATH": self.path(),
                "BACKPLANE_LOG": "warning",
                "BACKPLANE_PLUGINS": "cpu,npu",
                **environment,
            },
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), done.stderr.splitlines()

    def path(self):
        return f"{self.folder}:{os.environ.get('PYTHONPATH', '')}"


@pytest.fixture
def wheels(tmp_path):
    return Wheels(tmp_path)


def plugin_at(folder, plugin="acme"):
    """A manifest without a library: the loader tells of it where it looks."""
    home = folder / plugin
    home.mkdir(parents=True)
    (home / f"libbackplane_{plugin}.backplane.json").write_text("{")
    return home


MAKE = "import backplane as bp\nbp.Runtime()\n"


@pytest.mark.parametrize(
    "value, source, inside",
    [
        ("acme", "", "."),
        ("acme:folder", ENTRY_FOLDER, "plugins"),
        ("acme:find", ENTRY_FOLDER + "def find(): return str(folder)\n", "plugins"),
    ],
    ids=["package", "path", "function"],
)
def test_folder_of_an_entry_point_is_searched(wheels, value, source, inside):
    home = plugin_at(wheels.add("acme", value, source) / inside)
    out, err = wheels.run(MAKE)
    assert len(err) == 1 and str(home) in err[0] and "skipped at manifest" in err[0], err


def test_a_search_path_that_is_not_utf8_is_refused_by_name(wheels):
    wheels.add("acme", "acme")
    code = "import backplane as bp\ntry: bp.Runtime()\nexcept ValueError as error: print(error)\n"
    out, err = wheels.run(code, BACKPLANE_PLUGIN_PATH="/\udcff")
    assert out[0].startswith("BACKPLANE_PLUGIN_PATH: expected text that UTF-8 has a form of"), out


def test_a_runtime_of_other_plugins_has_none(wheels, tmp_path):
    plugin_at(wheels.add("acme", "acme"))
    code = f"import backplane as bp\nprint(bp.Runtime(install_dir='{tmp_path}').devices())\n"
    assert wheels.run(code, BACKPLANE_PLUGINS="") == (["[]"], [])


MUTE = """class Mute(Exception):
    def __str__(self):
        raise ValueError
raise Mute
"""


def test_broken_entry_points_are_told_by_name(wheels):
    wheels.add("gone", "no_such_module:folder")
    wheels.add("empty", "empty:folder")
    wheels.add("raises", "raises", "raise OSError('no driver')\n")
    wheels.add("leaves", "leaves", "import sys\nsys.exit(4)\n")
    wheels.add("number", "number:folder", "folder = 7\n")
    wheels.add("relative", "relative:folder", "folder = 'plugins'\n")
    wheels.add("missing", "missing:folder", "folder = '/nowhere/plugins'\n")
    wheels.add("two", "two:folder", "folder = '/tmp:/usr'\n")
    wheels.add("binary", "binary:folder", "folder = b'/tmp'\n")
    latin = wheels.add("latin", "latin:folder", ENTRY_FOLDER.replace("plugins", "\\udcff"))
    (latin / "\udcff").mkdir()
    (wheels.add("single", "single.file") / "file.py").touch()
    wheels.add("mute", "mute", MUTE)
    plugin_at(wheels.add("zebra", "zebra"))
    out, err = wheels.run(MAKE + "print(bp.ones(2).tolist())\nbp.Runtime()\n")
    assert out == ["[1.0, 1.0]"]
    start = "backplane warning: {0} 1.5: the entry point '{0}' ({1}) is left out: {2}"
    expected = [
        start.format("binary", "binary:folder", "TypeError: expected a path that is a str, found"),
        start.format("empty", "empty:folder", "AttributeError: "),
        start.format("gone", "no_such_module:folder", "ModuleNotFoundError: "),
        start.format("latin", "latin:folder", "UnicodeEncodeError: "),
        start.format("leaves", "leaves", "SystemExit: 4"),
        start.format("missing", "missing:folder", "expected the absolute path of a folder"),
        start.format("mute", "mute", "mute.Mute: "),
        start.format("number", "number:folder", "TypeError: "),
        start.format("raises", "raises", "OSError: no driver"),
        start.format("relative", "relative:folder", "expected the absolute path of a folder"),
        start.format("single", "single.file", "TypeError: expected a package, found the module 's"),
        start.format("two", "two:folder", "expected the absolute path of a folder"),
    ]
    ours = [line for line in err if "entry point" in line]  # once, and not for each Runtime
    assert len(ours) == len(expected), err
    for line, begin in zip(ours, expected):
        assert line.startswith(begin), (line, begin)
    assert sum("zebra" in line for line in err) == 3  # the good one beside them, for each Runtime


@pytest.mark.parametrize(
    "text", [b"[console_scripts]\nalone\n", b"[backplane.plugins]\na = \xff\n"], ids=["row", "byte"]
)
def test_entry_points_that_cannot_be_read_are_those_of_one_package(wheels, text, tmp_path):
    wheels.add("broken", "broken")
    (tmp_path / "broken-1.5.dist-info" / "entry_points.txt").write_bytes(text)
    home = plugin_at(wheels.add("acme", "acme"))
    out, err = wheels.run(MAKE + "print(bp.ones(2).tolist())\n")
    assert out == ["[1.0, 1.0]"]
    assert err[0].startswith("backplane warning: broken: its entry points cannot be read: "), err
    assert len(err) == 3 and all(str(home) in line for line in err[1:]), err


def test_what_the_user_names_comes_first(wheels, tmp_path):
    installed = plugin_at(wheels.add("acme", "acme"))
    named, given = plugin_at(tmp_path / "named"), plugin_at(tmp_path / "given")
    code = f"import backplane as bp\nbp.Runtime(plugin_path='{given.parent}')\n"
    out, err = wheels.run(code, BACKPLANE_PLUGIN_PATH=str(named.parent))
    assert [line.split()[2] for line in err] == [
        str(home / "libbackplane_acme.backplane.json") for home in (given, named, installed)
    ]
    code = f"import backplane as bp\nbp.Runtime(options={{PATH: '{given.parent}'}})\n"
    code = code.replace("PATH", "'BACKPLANE_PLUGIN_PATH'")
    out, err = wheels.run(code, BACKPLANE_PLUGIN_PATH=str(named.parent))
    assert [str(home) in line for home, line in zip((given, installed), err)] == [True, True]


def test_trust_is_the_loaders(wheels):
    home = plugin_at(wheels.add("acme", "acme"))
    source = INSTALLED.resolve().parents[1] / "lib/backplane/plugins/npu"
    shutil.rmtree(home)
    home.mkdir()
    for file in source.iterdir():
        shutil.copy(file, home)
    # Of two plugins with one id the first has it: the wheel's, before the installed ones.
    code = "import backplane as bp\nprint([d.name for d in bp.devices()])\n"
    out, err = wheels.run(code, BACKPLANE_LOG="info", BACKPLANE_PLUGINS="npu")
    assert out == ["['npu:0']"]
    assert any(f"plugin npu ({home}/libbackplane_npu.so)" in line for line in err), err
    home.chmod(0o777)
    out, err = wheels.run(code, BACKPLANE_PLUGINS="npu")
    assert out == ["['npu:0']"]  # the installed one
    assert any("can be written by everyone" in line and str(home) in line for line in err), err


def test_the_command_has_them(wheels):
    home = plugin_at(wheels.add("acme", "acme"))
    code = "import sys\nsys.argv = ['', 'devices', '--json']\nimport backplane.__main__\n"
    out, err = wheels.run(code, BACKPLANE_PLUGIN_PATH="/nowhere")
    skipped = json.dumps(json.loads("\n".join(out)))
    assert str(home) in skipped and skipped.index("/nowhere") < skipped.index(str(home))


def test_importing_looks_up_nothing(wheels):
    wheels.add("acme", "acme", "print('imported')\n")
    code = "import sys, backplane\nprint('importlib.metadata' in sys.modules, flush=True)\n"
    assert wheels.run(code)[0] == ["False"]
    code += "backplane.devices(); backplane.Runtime()\n"
    assert wheels.run(code)[0] == ["False", "imported"]
