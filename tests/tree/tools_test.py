#!/usr/bin/env python3
# tests/tree/tools_test.py -- the checkers can fail: each is given a good tree, then trees with one fault.
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = SOURCE / "tools"
GOOD = {
    "LAYERS": "# Who may include whom, for this test.\nbase:\nexpr: base\negraph: base\nir: base expr\n"
              "luminal/error.h: base\nluminal/dim.h: ir\n",
    "include/luminal/error.h": "// luminal/error.h -- errors.\n#pragma once\n#include <string>\n",
    "include/luminal/dim.h": '// luminal/dim.h -- extents.\n#pragma once\n#include "luminal/error.h"\n',
    "src/base/check.h": '// base/check.h -- checks.\n#pragma once\n#include "luminal/error.h"\n#include '
                        '<vector>\n',
    "src/egraph/graph.h": '// egraph/graph.h -- the engine.\n#pragma once\n#include "base/check.h"\n',
    "src/expr/expr.cpp": '// expr/expr.cpp -- integers.\n#include "base/check.h"\n',
    "src/ir/term.cpp": '// ir/term.cpp -- terms.\n#include "base/check.h"\n#include "luminal/dim.h"\n',
    "README.md": "# A tree for this test\n",
}


class Tree(unittest.TestCase):
    """A scratch tree; write() changes it, tool() runs a checker over it."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="luminal tools ")
        self.root = pathlib.Path(self.scratch.name)
        for path, text in GOOD.items():
            self.write(path, text)
        shutil.copy(SOURCE / ".clang-format", self.root)
        shutil.copy(SOURCE / ".clang-tidy", self.root)

    def tearDown(self):
        self.scratch.cleanup()

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def tool(self, name, *arguments, **options):
        command = [sys.executable] if name.endswith(".py") else ["bash"]
        done = subprocess.run([*command, str(TOOLS / name), *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, **options)
        return done.returncode, done.stdout

    def passes(self, name, *arguments, **options):
        code, output = self.tool(name, *arguments, **options)
        self.assertEqual(code, 0, output)
        return output

    def finds(self, what, name, *arguments, **options):
        code, output = self.tool(name, *arguments, **options)
        self.assertEqual(code, 1, output)
        self.assertIn(what, output)


class Layers(Tree):
    def check(self, path, line, what):
        self.passes("check_layers.py", "--root", self.root)
        self.write(path, GOOD.get(path, "// x.h -- x.\n") + line + "\n")
        self.finds(what, "check_layers.py", "--root", self.root)

    def test_folder_below(self):
        self.write("src/ir/term.h", "// ir/term.h -- terms.\n")
        self.check("src/expr/expr.cpp", '#include "ir/term.h"',
                   "src/expr/expr.cpp:3: expr may not include ir")

    def test_leaf_sees_only_base(self):
        self.write("src/expr/expr.h", "// expr/expr.h -- integers.\n")
        self.check("src/egraph/graph.h", '  #  include "expr/expr.h"', "src/egraph/graph.h:4: egraph may not")

    def test_leaf_in_layers(self):
        self.write("LAYERS", GOOD["LAYERS"].replace("egraph: base", "egraph: base expr"))
        self.finds("egraph may see base and nothing else", "check_layers.py", "--root", self.root)

    def test_order_in_layers(self):
        self.write("LAYERS", "base: expr\nexpr:\n")
        self.finds("LAYERS:1: base names expr", "check_layers.py", "--root", self.root)

    def test_public_header_of_another_library(self):
        self.check("include/luminal/error.h", "#include <fmt/core.h>",
                   "error.h:4: a public header may not include <fmt")

    def test_public_header_of_the_inside(self):
        self.check("include/luminal/error.h", '#include "base/check.h"',
                   "a public header may not include \"base/check.h\"")

    def test_public_header_above(self):
        self.check("src/expr/expr.cpp", '#include "luminal/dim.h"', "expr may not include luminal/dim.h")

    def test_public_header_without_owner(self):
        self.check("include/luminal/new.h", "#pragma once", "include/luminal/new.h:1: LAYERS does not say")

    def test_relative(self):
        self.check("src/expr/expr.cpp", '#include "../base/check.h"', "does not start with a folder of src/")

    def test_angled(self):
        self.check("src/expr/expr.cpp", "#include <base/check.h>", 'write "base/check.h"')

    def test_absent(self):
        self.check("src/expr/expr.cpp", '#include "base/gone.h"', "there is no src/base/gone.h")

    def test_unknown_folder(self):
        self.check("src/attic/old.h", "#pragma once", "the folder attic is not in LAYERS")


class Words(Tree):
    def check(self, text, what):
        self.passes("check_words.py", "--root", self.root)
        self.write("src/base/a.cpp", "// base/a.cpp -- x.\n" + text + "\n")
        self.finds(what, "check_words.py", "--root", self.root)

    def test_a_comment(self):
        self.check("// a loop that is dealt out", "src/base/a.cpp:2: 'dealt': write distributed")

    def test_a_name(self):
        self.check("int rows_ahead;", "src/base/a.cpp:2: 's_ahead': write prefetched")

    def test_german_negation(self):
        self.check("// this is no list", "write is not a")

    def test_english_is_left_alone(self):
        self.write("src/base/a.cpp", "// base/a.cpp -- there is no list, it is no longer needed.\n")
        self.passes("check_words.py", "--root", self.root)


class Groups(Tree):
    """Two files of src/expr, and what stands in them and in a header in the namespace luminal."""

    def two(self, first, second, header=""):
        self.write("src/expr/expr.h", f"// expr/expr.h -- x.\nnamespace luminal {{\n{header}\n}}\n")
        for name, text in (("a", first), ("b", second)):
            self.write(f"src/expr/{name}.cpp", f'// expr/{name}.cpp -- x.\n#include "expr/expr.h"\n'
                                               f"namespace luminal {{\n{text}\n}} // namespace luminal\n")

    def clash(self, first, second, header="", what="src/expr/b.cpp:4: "):
        self.two(first, second, header)
        self.finds(what, "check_groups.py", "--root", self.root)

    def fine(self, first, second, header=""):
        self.two(first, second, header)
        self.passes("check_groups.py", "--root", self.root)

    def test_functions(self):
        one = ("namespace {\n[[nodiscard]] std::map<int, int> f(const int& x, int y = g(1, 2)) {\n"
               "return {{x, y}}; } }")
        self.clash(one, "namespace { int f(const int& a, int) { return a; } }",
                   what="src/expr/b.cpp:4: f is in src/expr/a.cpp:5 too")
        self.clash(one, "static map<int, int> f(const int&, int);")
        self.clash("static void f(const std::map<a::B, int>& x);", "static void f(const map<B, int>&);")
        self.clash(one, "int g();", "int f(const int& x, int y);", "src/expr/a.cpp:5: f is in src/expr/")
        self.clash("static A operator+(A a, A);", "static A operator+(A x, A y) { return {}; }")
        self.fine("static A operator+(A a, A);", "static B operator+(B x, B y) { return {}; }")
        self.clash(one, "namespace { int f(double a) { return a; } }")  # which one is f(1)?
        self.clash("static void f(std::string_view a);", "static void f(const std::string& a, int b = 0);")
        self.fine(one, "namespace { int f(const A& a) { return a; } int f(int, int, int); }")
        self.fine(one, "namespace other { namespace { int f(const int& a, int) { return a; } } }")
        self.fine(one, "int A::f(const int& a, int) { return a; }\nA::A() : f{1}, g(2) { int f(1); }")
        self.fine(one, '// int f(int, int);\nauto x = R"(namespace { int f(const int& a, int) {} })";')

    def test_types_and_constants(self):
        part = "namespace { struct Part { int most; }; }"
        self.clash(part, "namespace { class Part final : public A<int> {}; }")
        self.clash(part, "namespace { template <class T> struct Part { T f; }; }")
        self.clash("namespace { enum class Part { a, b }; }", part)
        self.clash(part, "int x();", "struct Part {};", "src/expr/a.cpp:4: Part is in")
        self.clash("constexpr int most = 3;", "namespace { const std::vector<int> most{1, 2}; }")
        self.clash("constexpr int least = f(1, 2), most = 3;", "const int most = 4;")
        self.clash("namespace { int table[] = {1, 2}; }", "namespace { void table(int); }")
        self.fine(part, "namespace { struct Part; int most() { struct Part {}; int most; } }")
        self.fine("const int most = 3;", "int x();", "extern const int most;")

    def test_other_names_of_types(self):
        self.fine("using Key = std::string;", "using Key = std::string;")
        self.clash("using Key = std::string;", "using Key = int;")
        self.fine("using other::Key;", "using luminal::other::Key;", "namespace other { struct Key {}; }")
        self.clash("using other::Key;", "namespace { struct Key {}; }", "namespace other { struct Key {}; }")
        other = "namespace other { struct Key {}; }"
        self.clash("using namespace other;", "namespace { struct Key {}; }", other)
        self.fine("namespace fs = std::filesystem;", "namespace fs = std::filesystem;")

    def test_macros(self):
        self.clash("#define ROW(x) \\\n  x", "#define ROW 1",
                   what="src/expr/b.cpp:4: the macro ROW is in src/expr/a.cpp:4 too")
        self.clash("#define ROW 1\n#undef ROW", "", "#define ROW 2", "src/expr/a.cpp:4: the macro ROW is in")
        self.fine("#define ROW(x) x\n#undef ROW", "#define ROW 1")


class Files(Tree):
    def check(self, path, text, what):
        self.passes("check_files.py", "--root", self.root)
        self.write(path, text)
        self.finds(what, "check_files.py", "--root", self.root)

    def test_first_line(self):
        self.check("src/base/a.h", "#pragma once\n", "src/base/a.h:1: the first line must be '// base/a.h --")

    def test_first_line_of_another_file(self):
        self.check("src/base/a.h", "// base/b.h -- a thing.\n", "src/base/a.h:1:")

    def test_first_line_of_a_script(self):
        self.check("tools/a.sh", "#!/bin/sh\nset -e\n", "tools/a.sh:1: the first line must be a comment")

    def test_length(self):
        self.check("src/base/a.cpp", "// base/a.cpp -- long.\n" * 601, "src/base/a.cpp:601: 601 lines")

    def test_columns(self):
        wide = "x" * 111
        self.write("src/base/b.cpp", f'// base/b.cpp -- x.\nauto text = R"(\n{wide}\n)";\n')
        self.check("a.md", f"# x\n\n| {wide} |\n\n```text\n{wide}\n```\n\n{wide}\n", "a.md:9: 111 columns")
        self.write("b.md", f"# x\n\n```cpp\nint {wide};\n```\n")
        self.finds("b.md:4: 116 columns", "check_files.py", "--root", self.root)
        self.write("src/base/a.cpp", f"// base/a.cpp -- x.\nint {wide};\n")
        self.finds("a.cpp:2: 116 columns", "check_files.py", "--root", self.root)

    def test_length_of_a_public_header(self):
        self.check("include/luminal/dim.h", "// luminal/dim.h -- long.\n" * 301, "dim.h:301: 301 lines")

    def test_tab(self):
        self.check("src/base/a.cpp", "// base/a.cpp -- tab.\n\tint x;\n", "src/base/a.cpp:2: a tab")

    def test_machine_path(self):
        self.check("README.md", "# Title\nsee /ho" + "me/ann/models\n", "README.md:2: an absolute path")

    def test_unfinished(self):
        self.check("src/base/a.cpp", "// base/a.cpp -- x.\n// TO" + "DO more\n",
                   "src/base/a.cpp:2: a note of unfinished")

    def test_bytes(self):
        self.passes("check_files.py", "--root", self.root)
        (self.root / "src/base/a.cpp").write_bytes(b"// base/a.cpp -- \xff\n")
        self.finds("not UTF-8", "check_files.py", "--root", self.root)

    def test_a_page_names_a_file_that_is_not_there(self):
        self.check("README.md", "# Title\nsee `src/base/gone.h`\n",
                   "README.md:2: there is no src/base/gone.h")

    def test_a_header_with_the_stem_of_another_folder(self):
        self.check("src/ir/check.cpp", "// ir/check.cpp -- x.\n",
                   "src/base/check.h: shares its stem with src/ir/check.cpp")

    def test_two_types_of_one_name(self):
        text = ("// base/{}.h -- x.\nnamespace luminal {{\n{}struct Node {{\n  int x;\n}};\n{}"
                "}} // namespace luminal\n")
        self.write("src/base/m.h", text.format("m", "", ""))
        self.write("src/base/n.h", text.format("n", "namespace {\n", "} // namespace\n"))
        self.write("src/base/o.h", "// base/o.h -- x.\nnamespace luminal {\nstruct Node;\nstruct Node::Inner "
                                   "{\n};\n} // namespace luminal\n")
        self.check("src/base/p.h", text.format("p", "", ""),
                   "src/base/p.h:3: luminal::Node is also a type of src/base/m.h")

    def test_ignored_files_of_a_repository(self):
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        self.write(".gitignore", "# What git leaves out.\n/scratch/\n")
        self.write("scratch/a.cpp", "no first line\n")
        self.passes("check_files.py", "--root", self.root)


class Compiled(Tree):
    def test_headers(self):
        arguments = ["--root", self.root, "--cache", self.root / "build/headers", "--compiler",
                     os.environ.get("CXX", "c++")]
        # base/check.h is the first include of expr.cpp, so the build compiles it alone.
        self.assertIn("3 compiled now", self.passes("check_headers.py", *arguments))
        self.assertIn(" 0 compiled now", self.passes("check_headers.py", *arguments))
        self.write("include/luminal/error.h", GOOD["include/luminal/error.h"] + "inline std::string "
                                                                                "kind();\n#define E 1\n")
        self.assertIn("3 compiled now", self.passes("check_headers.py", *arguments))
        self.write("src/egraph/graph.h", GOOD["src/egraph/graph.h"] + "inline std::map<int, int> m;\n")
        self.finds("src/egraph/graph.h does not compile alone", "check_headers.py", *arguments)
        self.write("src/egraph/graph.h", GOOD["src/egraph/graph.h"])
        self.write("src/base/check.h", GOOD["src/base/check.h"].replace("#pragma once",
                                                                        "inline int twice = 0;"))
        self.finds("src/base/check.h has no #pragma once", "check_headers.py", *arguments)

    def test_public_headers_do_not_see_the_inside(self):
        self.write("include/luminal/dim.h", '// luminal/dim.h -- extents.\n#include "base/check.h"\n')
        self.finds("include/luminal/dim.h does not", "check_headers.py", "--root", self.root, "--cache",
                   self.root / "build/h")

    def test_format(self):
        code, output = self.tool("check_format.sh", "--root", self.root)
        if code == 77:
            self.skipTest(output)
        self.assertEqual(code, 0, output)
        self.write("src/base/a.cpp", "// base/a.cpp -- a.\nint   x;\n")
        code, output = self.tool("check_format.sh", "--root", self.root)
        self.assertNotEqual(code, 0)
        self.assertIn("src/base/a.cpp:2: not as clang-format 19", output)
        self.passes("check_format.sh", "--fix", "--root", self.root)
        self.passes("check_format.sh", "--root", self.root)

    def test_tidy(self):
        path = self.root / "src/base/a.cpp"
        self.write("build/compile_commands.json",
                   f'[{{"directory": "{self.root}", "file": "{path}", "command": "c++ -std=c++20 '
                   f'-fno-reorder-blocks-and-partition -c \\"{path}\\""}}]')
        arguments = ["--root", self.root, "--build", self.root / "build"]
        environment = {key: value for key, value in os.environ.items() if key != "LUMINAL_TIDY_SECONDS"}
        self.write("src/base/a.cpp", "// base/a.cpp -- a.\nint* nothing() { return nullptr; }\n")
        code, output = self.tool("check_tidy.py", *arguments, env=environment)
        if code == 77:
            self.skipTest(output)
        self.assertEqual(code, 0, output)
        self.assertIn("1 files, 0 looked at", self.passes("check_tidy.py", *arguments, env=environment))
        self.write("src/base/a.cpp", "// base/a.cpp -- a.\nint* nothing() { return 0; }\n")
        self.finds("src/base/a.cpp:2:25: error: use nullptr [modernize-use-nullptr]", "check_tidy.py",
                   *arguments,
                   env=environment)
        code, output = self.tool("check_tidy.py", *arguments,
                                 env=dict(environment, LUMINAL_TIDY_SECONDS="0.000001"))
        self.assertEqual(code, 77, output)
        self.assertIn("skipped: time ran out with 1 of 1 files left", output)
        # A group of files that is compiled as one: each file is looked at alone.
        group = self.root / "build/Unity/unity_0_cxx.cxx"
        self.write("build/compile_commands.json",
                   f'[{{"directory": "{self.root}", "file": "{group}", "command": "c++ -std=c++20 '
                   f'-c \\"{group}\\""}}]')
        for place in ("../../", "", f"{self.root}/"):
            self.write("build/Unity/unity_0_cxx.cxx", f"/* made */\n#include \"{place}src/base/a.cpp\"\n")
            self.finds("src/base/a.cpp:2:25: error: use nullptr [modernize-use-nullptr]", "check_tidy.py",
                       *arguments,
                       env=environment)


class Pages(Tree):
    PAGE = ("# Title\n```cpp run\n#include <cstdio>\nstd::puts(\"hello\");\n```\n```text output\nhello\n```\n"
            "```cpp\nnot a program\n```\n```sh run\necho a\n```\n")

    def test_blocks(self):
        self.write("README.md", self.PAGE)
        made = self.passes("readme_blocks.py", "--out", self.root / "out",
                           self.root / "README.md").split("\n")
        self.assertEqual([pathlib.Path(line).name for line in made if line], ["README_2.cpp", "README_12.sh"])
        program = (self.root / "out/README_2.cpp").read_text()
        self.assertEqual(program.splitlines()[1:], ["#include <cstdio>", "int main() {",
                                                    'std::puts("hello");', "}"])
        self.assertEqual((self.root / "out/README_2.expected").read_text(), "hello\n")
        self.write("README.md", "# Title\n")
        self.passes("readme_blocks.py", "--out", self.root / "out", self.root / "README.md")
        self.assertEqual(list((self.root / "out").iterdir()), [])

    def test_output_without_program(self):
        self.write("README.md", "# Title\n```text output\nhello\n```\n")
        self.finds("follows no block", "readme_blocks.py", "--out", self.root / "out",
                   self.root / "README.md")

    def test_open_fence(self):
        self.write("README.md", "# Title\n```cpp run\n")
        self.finds("without an end", "readme_blocks.py", "--out", self.root / "out", self.root / "README.md")

    def test_expected(self):
        run = ["--expected", self.root / "e", "printf", "a\\ntook 5 ms\\n"]
        self.passes("run_expected.py", *run)
        self.write("e", "a\ntook <*> ms\n")
        self.passes("run_expected.py", *run)
        self.write("e", "b\ntook <*> ms\n")
        self.finds("-b\n+a", "run_expected.py", *run)
        self.write("e", "a\ntook <*> ms\nmore\n")
        self.finds("-more", "run_expected.py", *run)
        self.finds("ended with 1", "run_expected.py", "false")
        self.passes("run_expected.py", *run, env=dict(os.environ, LUMINAL_UPDATE="1"))
        self.assertEqual((self.root / "e").read_text(), "a\ntook 5 ms\n")


class Scripts(Tree):
    def fake(self, name, text):
        self.write(f"bin/{name}", "#!/bin/sh\n" + text)
        (self.root / "bin" / name).chmod(0o755)

    def setup_script(self, *arguments):
        """tools/setup.sh in a path that holds only these commands and the fakes."""
        for name in ("bash", "env", "sed", "cat"):
            self.fake(name, f'exec {shutil.which(name)} "$@"\n')
        return self.tool("setup.sh", *arguments, env={"PATH": str(self.root / "bin")})

    def tool(self, name, *arguments, **options):
        if name != "setup.sh":
            return super().tool(name, *arguments, **options)
        done = subprocess.run([shutil.which("bash"), str(TOOLS / name), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, **options)
        return done.returncode, done.stdout

    def test_setup_without_root_names_what_is_missing(self):
        self.fake("dpkg-query", "echo 'installed:libfmt-dev '")
        self.fake("apt-get", "echo apt-get must not run; exit 1")
        self.fake("id", "echo 1000")
        code, output = self.setup_script()
        self.assertEqual(code, 3, output)
        for package in ("g++", "cmake", "ninja-build", "libsqlite3-dev", "llvm-19-dev"):
            self.assertIn(f" {package}", output)
        self.assertNotIn("libfmt-dev", output)
        self.assertNotIn("must not run", output)

    def test_setup_elsewhere(self):
        code, output = self.setup_script()
        self.assertEqual(code, 3, output)
        self.assertIn("LLVM 17 to 21", output)

    def test_setup_installs_an_llvm_that_is_there(self):
        self.fake("dpkg-query", "true")
        self.fake("id", "echo 0")
        self.fake("apt-cache", 'case "$2" in llvm-19-dev|libxxhash-dev) echo "  Candidate: (none)";; '
                               '*) echo "  Candidate: 1.0";; esac')
        self.fake("apt-get", 'echo "apt: $*"')
        code, output = self.setup_script()
        self.assertEqual(code, 3, output)
        self.assertRegex(output, "apt: .*install .*llvm-20-dev lld-20")
        self.assertIn("not in the package lists of this machine: libxxhash-dev", output)

    @unittest.skipUnless(shutil.which("ninja") and shutil.which("cmake"), "no ninja or no cmake")
    def test_changed_tests(self):
        self.write("CMakeLists.txt", """cmake_minimum_required(VERSION 3.25)
project(Two LANGUAGES CXX)
enable_testing()
foreach(name one two)
  add_executable(test_${name} ${name}.cpp)
  add_test(NAME ${name}.runs COMMAND test_${name})
endforeach()
foreach(name script headers)
  add_test(NAME tree.${name} COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/script.cmake)
endforeach()
add_test(NAME page.guide_3 COMMAND test_one)
add_executable(test_three tests/three/three.cpp)
add_test(NAME three.runs COMMAND test_three)
add_custom_command(OUTPUT package/made COMMAND ${CMAKE_COMMAND} -E touch package/made
  DEPENDS ${PROJECT_SOURCE_DIR}/made.in)
add_custom_target(package ALL DEPENDS package/made)
add_library(both STATIC above.cpp below.cpp)
add_executable(test_four four.cpp)
target_link_libraries(test_four both)
add_test(NAME four.runs COMMAND test_four)
add_library(luminal_tensor STATIC src/tensor/x.cpp)
add_library(luminal_nn STATIC src/nn/x.cpp)
add_library(luminal_models STATIC src/models/x.cpp)
add_library(opened SHARED python/bind/tensor.cpp python/bind/models/x.cpp)
target_link_libraries(opened luminal_models luminal_nn luminal_tensor)
set_target_properties(opened luminal_tensor luminal_nn luminal_models PROPERTIES
  POSITION_INDEPENDENT_CODE ON)
set_target_properties(opened PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bound)
foreach(name with without)
  add_test(NAME py_${name}.runs COMMAND ${CMAKE_COMMAND} -E true ${PROJECT_SOURCE_DIR}/${name}.py)
  set_tests_properties(py_${name}.runs PROPERTIES ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/bound")
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/package)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/linked.py ${PROJECT_BINARY_DIR}/package/linked.py SYMBOLIC)
add_test(NAME python.runs COMMAND ${CMAKE_COMMAND} -E true ${PROJECT_SOURCE_DIR}/run.py)
set_tests_properties(python.runs PROPERTIES ENVIRONMENT "PYTHONPATH=${PROJECT_BINARY_DIR}/package")
""")
        self.write("tests/three/three.cpp", '#define LUMINAL_SOURCE_DIR ""\n'
                   'const char* const data = LUMINAL_SOURCE_DIR "/pages/";\nint main() { return 0; }\n')
        for name in ("tests/three/data.txt", "pages/a.txt", "made.in", "linked.py", "other.py"):
            self.write(name, "# one\n")
        self.write("run.py", "import helper\n")
        self.write("helper.py", "# one\n")
        self.write("one.cpp", '#include "shared.h"\nint main() { return 0; }\n')
        self.write("two.cpp", "int main() { return 0; }\n")
        self.write("shared.h", "")
        self.write("above.cpp", "int above() { return 0; }\n")
        self.write("below.cpp", "int below() { return 0; }\n")
        self.write("four.cpp", "int below();\nint main() { return below(); }\n")
        self.write("LAYERS", "tensor:\nnn: tensor\nmodels: tensor nn\nluminal/m.h: models\n")
        self.write("src/tensor/x.cpp", "int tensor() { return 0; }\n")
        self.write("src/nn/x.cpp", "int tensor();\nint nn() { return tensor(); }\n")
        self.write("src/models/x.cpp", "int nn();\nint models() { return nn(); }\n")
        self.write("python/bind/tensor.cpp", "int tensor();\nint bind() { return tensor(); }\n")
        self.write("python/bind/models/x.cpp", 'int models();\nint bind_models() { return models(); }\n'
                   '// m.def("generate", models)\n')
        self.write("python/generate.py", 'HEADERS = ("m",)\n')
        self.write("include/luminal/m.h", "Tensor softest(Tensor x);\n")
        self.write("with.py", "import luminal\nluminal.generate()\n")
        self.write("without.py", "import luminal\n")
        self.write("guide.md", "# A page\n")
        self.write(".gitignore", "build\n")
        run = {"cwd": self.root, "check": True, "capture_output": True}
        subprocess.run(["git", "init", "-q"], **run)
        subprocess.run(["git", "add", "."], **run)
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "x"], **run)
        subprocess.run(["cmake", "-G", "Ninja", "-B", "build"], **run)
        subprocess.run(["ninja", "-C", "build"], **run)

        def reached():
            done = subprocess.run([sys.executable, str(TOOLS / "changed_tests.py"), "--root", str(self.root),
                                   "--build",
                                   str(self.root / "build"), "--since", "HEAD"], capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.strip()

        self.assertEqual(reached(), r"^(tree\.script$)")
        self.write("src/base/x.h", "")
        self.assertEqual(reached(), r"^(tree\.)")
        (self.root / "src/base/x.h").unlink()
        self.write("shared.h", "// now with a line\n")
        self.assertEqual(reached(), r"^(one\.|page\.|tree\.script$)")
        self.write("shared.h", "")
        self.write("two.cpp", "int main() { return 1; }\n")
        self.assertEqual(reached(), r"^(two\.|tree\.script$)")
        self.write("two.cpp", "int main() { return 0; }\n")
        self.write("guide.md", "# Another page\n")
        self.assertEqual(reached(), r"^(page\.|tree\.script$)")
        self.write("guide.md", "# A page\n")
        for name, test in (("tests/three/data.txt", "three"), ("pages/a.txt", "three"), ("made.in", "python"),
                           ("linked.py", "python"), ("helper.py", "python"), ("other.py", None)):
            self.write(name, "# another\n")
            self.assertEqual(reached(), rf"^({test}\.|tree\.script$)" if test else r"^(tree\.script$)", name)
            self.write(name, "# one\n")
        sources = {name: (self.root / name).read_text() for name in (
            "above.cpp", "below.cpp", "src/tensor/x.cpp", "src/nn/x.cpp", "src/models/x.cpp",
            "python/bind/tensor.cpp", "python/bind/models/x.cpp")}
        bound, all_bound = r"py_with\.", r"py_with\.|py_without\."
        for name, tests in (("above.cpp", ""), ("below.cpp", r"four\."), ("src/tensor/x.cpp", all_bound),
                            ("src/nn/x.cpp", bound), ("src/models/x.cpp", bound),
                            ("python/bind/tensor.cpp", all_bound), ("python/bind/models/x.cpp", bound)):
            self.write(name, "// another\n" + sources[name])
            self.assertEqual(reached(), f"^({tests}{'|' if tests else ''}tree\\.script$)", name)
            self.write(name, sources[name])
        self.write("without.py", "import luminal\nluminal.softest(1)\n")
        self.write("src/nn/x.cpp", "// another\n" + sources["src/nn/x.cpp"])
        self.assertEqual(reached(), rf"^({all_bound}|tree\.script$)")
        self.write("CMakeLists.txt", (self.root / "CMakeLists.txt").read_text() + "# more\n")
        self.assertEqual(reached(), rf"^(four\.|one\.|page\.|{all_bound}|python\.|three\.|tree\.|two\.)")

    def test_scripts_parse(self):
        for script in (*TOOLS.glob("*.sh"), *SOURCE.glob("*.sh")):
            subprocess.run(["bash", "-n", str(script)], check=True)
            if shutil.which("shellcheck"):
                done = subprocess.run(["shellcheck", "-x", "-s", "bash", "-S", "warning", str(script)],
                                      cwd=SOURCE,
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_usage(self):
        for script, words in (("test.sh", ["--asan", "--label", "--changed"]),
                              ("bench.sh", ["peers", "--json"])):
            done = subprocess.run([str(SOURCE / script), "--help"], capture_output=True, text=True, cwd="/")
            self.assertEqual(done.returncode, 0, done.stderr)
            for word in words:
                self.assertIn(word, done.stdout + done.stderr)
        for script in ("test.sh", "bench.sh"):
            done = subprocess.run([str(SOURCE / script), "--nonsense"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
