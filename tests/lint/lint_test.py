# SPDX-License-Identifier: Apache-2.0
"""Proves that each lint can fail: a clean sample tree passes, each seeded fault is named."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import abi_laws
import elf
import file_rules
import include_rules
import library_symbols
import plugin_symbols
import size_arithmetic
import size_limits
import tree
import vendor_words

HEAD = "// SPDX-License-Identifier: Apache-2.0\n"


def long_function(lines, head="int f()"):
    return head + " {\n" + "  g();\n" * (lines - 2) + "}\n"


class SampleTree(unittest.TestCase):
    """A small clean tree in a temporary folder, to which a test adds one fault."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.add("device_api/include/backplane/types.h", HEAD + "#include <stdint.h>\n")
        self.add("core/base/status.hpp", HEAD + "#include <backplane/types.h>\n#include <string>\n")
        self.add("core/plugin/loader.cpp", HEAD + '#include "core/base/status.hpp"\nint chip();\n')
        self.add("ops/defs/nn.yaml", "#" + HEAD[2:] + "operators:\n  - op: conv\n")
        self.add("ops/infer.cpp", HEAD + '#include "core/base/status.hpp"\n')
        self.add("plugins/npu/npu.cpp",
                 HEAD + '#include <backplane/types.h>\n#include "queue.hpp"\n')
        self.add("plugins/npu/queue.hpp", HEAD)
        self.add("plugins/npu/CMakeLists.txt", "#" + HEAD[2:] +
                 "bp_add_plugin(NAME npu KERNELS kernels/relu.cpp)\n")
        self.add("plugins/npu/kernels/relu.cpp", HEAD + '#include "plugins/npu/queue.hpp"\n')
        self.add(abi_laws.PAGE, "".join(f"| {law} | rule | reviewed: a sample |\n"
                                        for law in abi_laws.LAWS))

    def add(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def assert_one(self, problems, *parts):
        self.assertEqual(len(problems), 1, problems)
        for part in parts:
            self.assertIn(part, problems[0])


class WholeRun(SampleTree):
    def test_clean_tree_has_no_problem(self):
        for lint in (include_rules, vendor_words, size_limits, size_arithmetic, file_rules,
                     abi_laws):
            self.assertEqual(lint.check(self.root), [], lint.__name__)

    def test_run_lints_exit_status(self):
        script = pathlib.Path(__file__).with_name("run_lints.py")

        def status():
            return subprocess.run([sys.executable, "-B", str(script), str(self.root)], check=False,
                                  capture_output=True).returncode
        self.assertEqual(status(), 0)
        self.add("core/base/bad.hpp", "int x;\n")
        self.assertEqual(status(), 1)


class IncludeRules(SampleTree):
    def check_bad(self, path, include, *parts):
        self.add(path, HEAD + f"#include {include}\n")
        self.assert_one(include_rules.check(self.root), path, *parts)

    def test_core_includes_plugin(self):
        self.check_bad("core/plugin/x.cpp", '"plugins/npu/queue.hpp"', "plugins/npu")

    def test_core_includes_ops(self):
        self.add("ops/infer.hpp", HEAD)
        self.check_bad("core/plan/x.cpp", '"ops/infer.hpp"', "(ops)")

    def test_core_includes_vendor_header(self):
        self.check_bad("core/plugin/x.cpp", "<CL/cl.h>", "outside the tree")

    def test_core_includes_by_way_of_dots(self):
        self.check_bad("core/plugin/x.cpp", '"../../plugins/npu/queue.hpp"', "plugins/npu")

    def test_base_includes_other_module(self):
        self.add("core/plugin/loader.hpp", HEAD)
        self.check_bad("core/base/x.cpp", '"core/plugin/loader.hpp"', "core/base may not")

    def test_emulation_includes_runtime(self):
        self.add("core/runtime/stream.hpp", HEAD)
        self.check_bad("core/emulation/x.cpp", '"core/runtime/stream.hpp"', "core/emulation")

    def test_rank_includes_later_rank(self):
        self.add("core/graph/graph.hpp", HEAD)
        self.check_bad("core/runtime/x.cpp", '"core/graph/graph.hpp"', "core/runtime may not")

    def test_later_rank_includes_earlier(self):
        self.add("core/op/schema.hpp", HEAD)
        self.add("core/plan/x.cpp", HEAD + '#include "core/op/schema.hpp"\n')
        self.assertEqual(include_rules.check(self.root), [])

    def test_conformance_cases_are_for_doctor_alone(self):
        self.add("sdk/conform/case.hpp", HEAD)
        self.add("core/cli/x.cpp", HEAD + '#include "sdk/conform/case.hpp"\n')
        self.assertEqual(include_rules.check(self.root), [])
        others = [area for area, allowed in include_rules.RULES.items() if "sdk/conform" in allowed]
        self.assertEqual(sorted(others), ["core/cli", "sdk/conform"])
        self.check_bad("core/api/x.cpp", '"sdk/conform/case.hpp"', "core/api may not")

    def test_conformance_cases_do_not_include_the_command(self):
        self.add("core/cli/cli.hpp", HEAD)
        self.check_bad("sdk/conform/x.cpp", '"core/cli/cli.hpp"', "sdk/conform may not")

    def test_forward_declaration_of_later_rank(self):
        self.add("core/graph/graph.hpp", HEAD + "class Graph final : public Base {\n};\n")
        for line in ("class Graph;", "namespace bp { class Graph; }", "enum class Graph : int;",
                     "  void see(const class Graph& graph);", "std::vector<struct Graph*> all;"):
            self.add("core/op/x.hpp", HEAD + line + "\n")
            self.assert_one(include_rules.check(self.root), "core/op/x.hpp:2", "declare Graph")
        self.add("core/op/x.hpp", HEAD + "class Own {\n  class Graph;\n};\n")
        self.assertEqual(include_rules.check(self.root), [])

    def test_forward_declaration_of_earlier_rank(self):
        self.add("core/op/schema.hpp", HEAD + "struct OpSchema {\n};\n")
        self.add("core/graph/x.hpp", HEAD + "struct OpSchema;\n")
        self.assertEqual(include_rules.check(self.root), [])

    def test_plugin_includes_core(self):
        self.check_bad("plugins/npu/x.cpp", '"core/base/status.hpp"', "plugins/npu may not")

    def test_plugin_includes_other_plugin(self):
        self.check_bad("plugins/cpu/x.cpp", '"plugins/npu/queue.hpp"', "plugins/cpu may not")

    def test_device_api_includes_more_than_two_headers(self):
        self.check_bad("device_api/include/backplane/x.h", "<string.h>", "device_api may not")

    def test_sdk_includes_core(self):
        self.check_bad("sdk/include/backplane/sdk/x.hpp", '"core/base/status.hpp"', "sdk may not")

    def test_collectives_include_ops(self):
        self.add("ops/infer.hpp", HEAD)
        self.check_bad("ccl/x.cpp", '"ops/infer.hpp"', "ccl may not")

    def test_unknown_folder(self):
        self.add("extra/x.cpp", HEAD)
        self.assert_one(include_rules.check(self.root), "extra/x.cpp", "no include rule")

    def test_core_names_operator_or_plugin(self):
        self.add("core/plan/x.cpp", HEAD + 'auto a = "conv";\n')
        self.assert_one(include_rules.check(self.root), "core/plan/x.cpp:2", "conv")
        self.add("core/plan/x.cpp", HEAD + 'auto a = "npu:0";  // "conv"\n')
        self.assert_one(include_rules.check(self.root), "core/plan/x.cpp:2", "npu")


class VendorWords(SampleTree):
    def test_word_in_core(self):
        for text in ("int cudaMalloc();", "// like NCCL does", "int bp_hip_stream;", "warpSize"):
            self.add("core/base/x.cpp", HEAD + text + "\n")
            self.assert_one(vendor_words.check(self.root), "core/base/x.cpp:2")

    def test_word_in_own_plugin_is_fine(self):
        self.add("plugins/xpu/x.cpp", HEAD + "// OpenCL\n")
        self.assertEqual(vendor_words.check(self.root), [])

    def test_exception_must_be_used_and_reasoned(self):
        self.add("core/base/x.cpp", HEAD + "// opencl\n")
        self.add("tests/lint/vendor_words.txt", "core/base/x.cpp: opencl  # a module kind\n")
        self.assertEqual(vendor_words.check(self.root), [])
        self.add("core/base/x.cpp", HEAD)
        self.assert_one(vendor_words.check(self.root), "not needed")
        self.add("tests/lint/vendor_words.txt", "core/base/x.cpp: opencl\n")
        self.assert_one(vendor_words.check(self.root), "expected")


class SizeArithmetic(SampleTree):
    BAD = ("a = bytes + 255;", "a = x * info.bytes;", "a = (slot.size_bytes + b) / 2;",
           "a = segment->arena_bytes[i] * 2;", "a = 1 << bytes;", "a = b.bytes() + 1;",
           "a = count * (sizes[0] - 1);",
           # assignments
           "total_bytes += b;", "a += info.bytes;", "a *= sizes[i];", "bytes *= 2;", "bytes <<= 1;",
           "for (int64_t size : sizes) a *= size;",
           # without spaces
           "a = bytes+255;", "a = 8*bytes;", "a = sizes[0]*2;", "a = 1<<bytes;", "bytes*=2;",
           # by way of a cast or a pointer
           "a = static_cast<uint64_t>(sizes[0]) * 2;", "a = b * static_cast<uint64_t>(sizes[0]);",
           "a = b + *bytes;",
           # an operator at a line's end or begin
           "a = bytes +\n    255;", "a = bytes\n    + 255;", "a = b *\n    info.bytes;",
           "a = b\n    * (info.bytes - 1);")
    GOOD = ("uint64_t* bytes = f();", "a = checked_add(bytes, 255);", "a = b + 1;  // bytes + 1",
            'text += std::to_string(bytes) + " bytes";', "++used_bytes;",
            "f(*bytes);", "f(*out_bytes, *bytes);", "auto* p = static_cast<uint64_t*>(bytes);",
            "a = 2 * sizes.size();", "const Dims* sizes;", "a = b.size + 1;")

    def test_bare_arithmetic(self):
        for line in self.BAD:
            self.add("core/plan/x.cpp", HEAD + line + "\n")
            self.assert_one(size_arithmetic.check(self.root), "core/plan/x.cpp:2")
        self.add("core/plan/x.cpp", HEAD + "".join(f"{line}\n" for line in self.GOOD))
        self.assertEqual(size_arithmetic.check(self.root), [])

    def test_each_area_is_looked_at_and_no_other(self):
        for area in size_arithmetic.AREAS:
            path = f"{area}cli/x.cpp"
            self.add(path, HEAD + "a = bytes + 1;\n")
            self.assert_one(size_arithmetic.check(self.root), f"{path}:2")
            self.add(path, HEAD)
        self.add("plugins/cpu/x.cpp", HEAD + "a = bytes + 1;\n")
        self.assertEqual(size_arithmetic.check(self.root), [])

    def test_exception_holds_over_the_end_of_a_line(self):
        self.add("tests/lint/size_arithmetic.txt", "core/plan/x.cpp: bytes + 1  # of one block\n")
        self.add("core/plan/x.cpp", HEAD + "a = bytes +\n    1;\n")
        self.assertEqual(size_arithmetic.check(self.root), [])

    def test_exception_must_be_used_and_reasoned(self):
        listed = "tests/lint/size_arithmetic.txt"
        self.add("core/memory/x.cpp", HEAD + "a = bytes + 1;\n")
        self.add(listed, "core/memory/x.cpp: bytes + 1  # of one block\n")
        self.assertEqual(size_arithmetic.check(self.root), [])
        self.add("core/memory/x.cpp", HEAD)
        self.assert_one(size_arithmetic.check(self.root), "not needed")
        self.add(listed, "core/memory/x.cpp: bytes + 1\n")
        self.assert_one(size_arithmetic.check(self.root), "expected")


class SizeLimits(SampleTree):
    def test_long_source(self):
        self.add("core/base/x.cpp", HEAD + "int a;\n" * 600)
        self.assert_one(size_limits.check(self.root), "601 lines")

    def test_long_header(self):
        self.add("core/base/x.hpp", HEAD + "int a;\n" * 400)
        self.assert_one(size_limits.check(self.root), "401 lines")

    def test_long_function(self):
        for head in ("int f()", "void A::f(int x) const noexcept", "auto f() -> std::vector<int>",
                     'extern "C" int f(void)', "A::A() : a_{1}, b_(2)",
                     "template <typename T>\nResult<T> f(T (*g)(int), const char* s = \"{\")"):
            self.add("core/base/x.cpp", HEAD + "namespace bp {\nstruct S { int a = 1; };\n"
                     + long_function(61 - head.count("\n"), head) + "}\n")
            self.assert_one(size_limits.check(self.root), "function of 61 lines")
            self.add("core/base/x.cpp", HEAD + long_function(60 - head.count("\n"), head))
            self.assertEqual(size_limits.check(self.root), [])

    def test_long_type_is_no_function(self):
        self.add("core/base/x.hpp", HEAD + "struct S {\n" + "  int a = f(1);\n" * 70 + "};\n")
        self.assertEqual(size_limits.check(self.root), [])

    def test_digit_separator_and_braces_in_text(self):
        text = "int f() {\n  int n = 1'000;\n  g(\"}{{{\", '{');  // {\n}\n"
        self.add("core/base/x.cpp", HEAD + text + long_function(61))
        self.assert_one(size_limits.check(self.root), "function of 61 lines")

    def test_deep_nesting(self):
        def nested(levels):
            return ("int f() {\n" + "for (int i = 0; i < 2; i++) {\n" * levels + "g({1, {2}});\n"
                    + "}\n" * (levels + 1))
        self.add("core/base/x.cpp", HEAD + nested(4))
        self.assertEqual(size_limits.check(self.root), [])
        self.add("core/base/x.cpp", HEAD + nested(5))
        self.assert_one(size_limits.check(self.root), "5 nesting levels")

    def test_long_python_function(self):
        self.add("ops/x.py", "# " + HEAD[3:] + "def f():\n" + "    g()\n" * 60)
        self.assert_one(size_limits.check(self.root), "function of 61 lines")

    def test_wide_line(self):
        self.add("core/base/x.cpp", HEAD + "// " + "x" * 98 + "\n")
        self.assert_one(size_limits.check(self.root), "101 columns")


class FileRules(SampleTree):
    def test_missing_licence(self):
        self.add("core/base/x.cpp", "int a;\n")
        self.assert_one(file_rules.check(self.root), "core/base/x.cpp", "first line")

    def test_note_to_self(self):
        self.add("core/base/x.cpp", HEAD + "// TO" + "DO: later\n")
        self.assert_one(file_rules.check(self.root), "core/base/x.cpp:2")

    def test_devices_listed_by_hand(self):
        head = "\nINSTANTIATE_TEST_SUITE_P(Devices, T,\n    testing::Values("
        self.add("tests/api/x_test.cpp", HEAD + head + '"cpu:0", "npu:0"), name);\n')
        self.assert_one(file_rules.check(self.root), "tests/api/x_test.cpp:3", "device_names()")
        self.add("tests/api/x_test.cpp", HEAD + head + '"npu:0", kEmulated,\n"xpu:0"), name);\n')
        self.assert_one(file_rules.check(self.root), "tests/api/x_test.cpp:3", "device_names()")
        for sound in ("// These two queue." + head + '"cpu:0", "npu:0"), name);\n',
                      head + '"npu:0", "npu:1"), name);\n', head + "1, 2), name);\n"):
            self.add("tests/api/x_test.cpp", HEAD + sound)
            self.assertEqual(file_rules.check(self.root), [])

    def test_kernel_that_no_list_names(self):
        offer = "constexpr bp_kernel kKernels[] = {elu()};\nBP_SDK_KERNELS(elu, kKernels);\n"
        self.add("plugins/npu/kernels/elu.cpp", HEAD + offer)
        self.assert_one(file_rules.check(self.root), "kernels/elu.cpp", "not in KERNELS")
        head = "#" + HEAD[2:] + "bp_add_plugin(NAME npu SOURCES plugin.cpp "
        self.add("plugins/npu/CMakeLists.txt", head + "kernels/elu.cpp # KERNELS\n KERNELS\n"
                 "kernels/relu.cpp LINK x)")
        self.assert_one(file_rules.check(self.root), "kernels/elu.cpp", "not in KERNELS")
        self.add("plugins/npu/CMakeLists.txt",
                 head + "KERNELS kernels/relu.cpp\n kernels/elu.cpp LINK x)")
        self.assertEqual(file_rules.check(self.root), [])

    def test_kernel_object_that_is_not_offered(self):
        self.add("plugins/npu/kernels/relu.cpp", HEAD + "constinit const bp_kernel kElu = elu();\n"
                 "constexpr bp_kernel kKernels[] = {elu()};\nBP_SDK_KERNELS(relu, kKernels);\n")
        self.assert_one(file_rules.check(self.root), "kernels/relu.cpp", "kElu")

    def test_file_that_is_not_built(self):
        self.add("plugins/npu/kernels/loops.cpp", HEAD)
        self.assert_one(file_rules.check(self.root), "kernels/loops.cpp", "CMakeLists.txt")
        self.add("plugins/npu/CMakeLists.txt", "#" + HEAD[2:] + "bp_add_plugin(NAME npu SOURCES "
                 "kernels/loops.cpp KERNELS kernels/relu.cpp)")
        self.assertEqual(file_rules.check(self.root), [])


class AbiLaws(SampleTree):
    def with_row(self, holder):
        rows = [f"| {law} | rule | reviewed: a sample |" for law in abi_laws.LAWS]
        self.add(abi_laws.PAGE, "\n".join([*rows, f"| 2 | rule | {holder} |"]))
        return abi_laws.check(self.root)

    def test_a_test_that_exists_is_fine(self):
        self.assertEqual(self.with_row("`core/plugin/loader.cpp` `chip`"), [])

    def test_each_bad_row_is_named(self):
        self.assert_one(self.with_row("`core/plugin/none.cpp` `chip`"), "no file core/plugin/none")
        self.assert_one(self.with_row("`core/plugin/loader.cpp` `Gone`"), "has no Gone")
        self.assert_one(self.with_row("reviewed: "), "expected")
        self.assert_one(self.with_row("somebody looks"), "found 'somebody looks'")

    def test_a_law_without_a_row(self):
        self.add(abi_laws.PAGE, "".join(f"| {law} | rule | reviewed: a sample |\n"
                                        for law in abi_laws.LAWS if law != 7))
        self.assert_one(abi_laws.check(self.root), "law 7")

    def test_no_page(self):
        (self.root / abi_laws.PAGE).unlink()
        self.assert_one(abi_laws.check(self.root), "missing")


class BuiltLibraries(unittest.TestCase):
    """Compiles tiny libraries, good and bad, and looks at them as the lints do."""

    def build_file(self, source, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        library = pathlib.Path(folder.name) / "libsample.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), *options],
                       input=source, text=True, check=True)
        return library

    def build(self, source, *options):
        return elf.inspect(self.build_file(source, *options))

    def test_good_plugin(self):
        library = self.build("int bp_plugin_entry(void) { return 0; }",
                             "-Wl,-rpath,$ORIGIN")
        self.assertEqual(plugin_symbols.check(library), [])

    def test_bad_plugins(self):
        entry = "int bp_plugin_entry(void) { return 0; }"
        extra = self.build(entry + "int other(void) { return 0; }")
        self.assertIn("other", plugin_symbols.check(extra)[0])
        missing = self.build("static int a; int *f(void); ")
        self.assertIn("exports []", plugin_symbols.check(missing)[0])
        importing = self.build("int bp_helper(void);" + entry + "static int (*f)(void) = bp_helper;"
                               "__attribute__((visibility(\"hidden\"))) int g(void){return f();}")
        self.assertIn("bp_helper", plugin_symbols.check(importing)[0])
        fixed = self.build(entry, "-Wl,-rpath,/opt/somewhere:$ORIGIN")
        self.assertIn("/opt/somewhere", plugin_symbols.check(fixed)[0])

    def test_plugin_that_holds_the_oracle(self):
        entry = "int bp_plugin_entry(void) { return 0; }"
        body = ("__attribute__((visibility(\"hidden\"))) int {}(void) {{ return 1; }}")
        mine = self.build(entry + body.format("_ZN2bp3npu8evaluateEv"))
        self.assertEqual(plugin_symbols.check(mine), [])
        for name in ("_ZN2bp8evaluateERKNS_8OpSchemaE", "_ZNK2bp4expr7Program3runEv",
                     "_ZN2bp3ops10infer_gemmEv"):
            problems = plugin_symbols.check(self.build(entry + body.format(name)))
            self.assertEqual(problems, [f"holds 1 functions of ops/ or the kit, as {name}"])
        stripped = self.build(entry + body.format("_ZN2bp3ops10infer_gemmEv"), "-s")
        self.assertIn("is stripped", plugin_symbols.check(stripped)[0])

    def test_plugin_linked_with_the_core(self):
        library = elf.Library({"bp_plugin_entry"}, set(), ["libbackplane.so.0"], [])
        self.assertIn("linked with", plugin_symbols.check(library)[0])

    def test_library_symbols(self):
        header = ("// bpa_comment();\n#define bpa_macro(x) x\ntypedef void (*bpa_callback)(int);\n"
                  "BPA_API bpa_status bpa_open(bpa_callback f);\n"
                  "static inline int bpa_help(void) {\n  return bpa_hidden();\n}\n")
        self.assertEqual(library_symbols.declared_functions(header), {"bpa_open"})
        exported = self.build("int bpa_open(void) { return 0; }").exported
        self.assertEqual(library_symbols.compare(exported, {"bpa_open"}), [])
        self.assertIn("in no header", library_symbols.compare({"bpa_open", "x"}, {"bpa_open"})[0])
        self.assertIn("not exported", library_symbols.compare({"a"}, {"a", "b"})[0])
        self.assertIn("declare no function", library_symbols.compare(set(), set())[0])

    def test_thread_local_bytes(self):
        self.assertEqual(elf.thread_local_bytes(self.build_file("int plain;")), 0)
        taken = elf.thread_local_bytes(self.build_file("_Thread_local char words[400] = {1};"))
        self.assertEqual(taken, 400)
        self.assertIn("400 bytes", library_symbols.check_thread_locals(taken)[0])
        self.assertEqual(library_symbols.check_thread_locals(280), [])


class SourceText(unittest.TestCase):
    def test_comments_and_strings_are_blanked_in_place(self):
        text = 'a /* { */ b "}" // {\nR"x({)x" c\n'
        code = tree.code_only(text)
        self.assertEqual(code.count("\n"), 2)
        self.assertNotIn("{", code)
        self.assertNotIn("}", code)
        self.assertEqual(code.split()[0], "a")


if __name__ == "__main__":
    unittest.main()
