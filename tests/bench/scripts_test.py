#!/usr/bin/env python3
"""The other scripts under bench/: wrong arguments are one line at the start, and what ran nothing does not say that all is well. And tests/run_all.sh."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
from with_programs import WithPrograms  # noqa: E402

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


class ScriptsTest(WithPrograms):
    def refusal(self, script, *arguments):
        done = subprocess.run([sys.executable, "-B", str(BENCH / script), *arguments], capture_output=True, text=True, check=False,
                              cwd=self.folder)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr.splitlines()[-1]

    def test_wrong_arguments_are_refused_in_a_line(self):
        for script, arguments, words in (
                ("devices.py", ["none", "m"], "'none' is no program"),
                ("devices.py", ["/bin/true", "none"], "'none' is no file that can be read"),
                ("real_runs.py", ["none"], "'none' is no program"),
                ("real_runs.py", ["/bin/true", "--models=foo"], "'foo', expected one of resnet50"),
                ("real_runs.py", ["/bin/true", "--percent=80,abc"], "'abc', expected a number from 1 on"),
                ("real_runs.py", ["/bin/true", "--out=none/x.md"], "'none/x.md' cannot be written"),
                ("chain_graph.py", ["abc", "x.pbtxt"], "'abc', expected a number from 1 on"),
                ("peers_gpu.py", ["--models=foo"], "'foo', expected one of resnet50"),
                ("peers_gpu.py", ["--steps=nan"], "'nan', expected a number from 1 on"),
                ("peers_gpu.py", ["--json=none/x.json"], "'none/x.json' cannot be written"),
                ("gpu_report.py", [], "usage: gpu_report.py FOLDER"),
                ("gpu_report.py", [".", "--dryrun"], "usage: gpu_report.py FOLDER"),
                ("gpu_about.py", ["none"], "usage: gpu_about.py OUT_FOLDER")):
            with self.subTest(f"{script} {arguments}"):
                self.assertIn(words, self.refusal(script, *arguments))
        self.assertFalse((self.folder / "x.pbtxt").exists())

    def test_help_and_wrong_arguments_run_nothing(self):
        for script in ("gpu_check.sh", "gpu_bundle.sh", "sanitizers.sh", "main_job.sh", "gpu_about.py", "gpu_report.py", "devices.py", "real_runs.py",
                       "peers_gpu.py", "chain_graph.py", "against_tensorflow.py", "ops_against_tensorflow.py", "shipped_models.py"):
            interpreter = ["bash"] if script.endswith(".sh") else [sys.executable, "-B"]
            for argument, status in (("--help", 0), ("-h", 0), ("--bogus", 2)):
                if argument == "--bogus" and ("tensorflow" in script or script == "shipped_models.py"):
                    continue  # without TensorFlow or onnxruntime it comes no further than to say so
                with self.subTest(f"{script} {argument}"):
                    done = subprocess.run([*interpreter, str(BENCH / script), argument], capture_output=True, text=True, check=False, cwd=self.folder)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertIn(script, done.stdout if status == 0 else done.stderr)
                    self.assertFalse(done.stdout.startswith("#"))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_shell_scripts_that_lack_arguments_say_which(self):
        for script, arguments, words in (("gpu_check.sh", [], "usage: gpu_check.sh OUT_FOLDER"), ("gpu_bundle.sh", [], "usage: gpu_bundle.sh FOLDER"),
                                         ("gpu_bundle.sh", ["a", "b"], "usage: gpu_bundle.sh FOLDER"), ("main_job.sh", ["50"], "usage: "),
                                         ("sanitizers.sh", ["asan", "msan"], "no preset 'msan'; usage: sanitizers.sh [asan] [tsan]")):
            done = subprocess.run(["bash", str(BENCH / script), *arguments], capture_output=True, text=True, check=False, cwd=self.folder)
            self.assertEqual(done.returncode, 2, script)
            self.assertTrue(done.stderr.startswith(words) or words in done.stderr, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy")
    def test_a_script_that_writes_data_of_tests_writes_none_when_asked_for_help(self):
        shutil.copy(BENCH.parent / "tests/import/make_npz.py", self.folder)
        (self.folder / "data").mkdir()
        for argument, status in (("--help", 0), ("--chek", 2)):
            done = subprocess.run([sys.executable, "-B", str(self.folder / "make_npz.py"), argument], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn("--check F", done.stdout + done.stderr)
        self.assertEqual(list((self.folder / "data").iterdir()), [])

    # What it removes lies below the folder of the build.
    def test_what_unpacks_the_bundle_does_nothing_alone(self):
        done = subprocess.run(["bash", str(BENCH / "gpu_unpack.sh")], capture_output=True, text=True, check=False, cwd=self.folder,
                              env={**{k: v for k, v in os.environ.items() if k != "build"}, "bundle": str(self.folder)})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("build: gpu_check.sh reads this file", done.stderr)

    def test_what_a_program_says_when_it_fails_is_shown(self):
        self.script("program", "echo no model foo >&2\nexit 2\n")
        (self.folder / "machine.pbtxt").touch()
        for script, arguments in (("devices.py", ["machine.pbtxt", "--model=foo"]), ("real_runs.py", ["--quick"])):
            done = subprocess.run([sys.executable, "-B", str(BENCH / script), str(self.folder / "programs/program"), *arguments],
                                  capture_output=True, text=True, check=False, cwd=self.folder)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.endswith(": exit status 2: no model foo\n"), done.stderr)

    @unittest.skipUnless(os.path.exists(os.environ.get("PLANNER_BENCH", "")), "PLANNER_BENCH is not built")
    def test_the_planner_bench_refuses_what_it_does_not_know(self):
        for argument, status, words in (("--bogus", 2, "no flag --bogus"), ("--pressures=2,abc", 2, "'abc', expected numbers from 0 on"),
                                        ("--bogus", 2, "usage: planner_bench"), ("--pressures=", 2, "'', expected numbers"), ("--strategies=foo", 2, "no strategy 'foo', expected some of"),
                                        ("nothing", 1, "no row's model and machine")):
            for study in ([], ["--study"]):
                done = subprocess.run([os.environ["PLANNER_BENCH"], argument, *study], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, status, argument)
                self.assertIn(words, done.stderr)
        for argument in ("--help", "-h"):
            done = subprocess.run([os.environ["PLANNER_BENCH"], argument], capture_output=True, text=True, check=True)
            self.assertTrue(done.stdout.startswith("usage: planner_bench"))

    def sanitized(self, said):
        """What sanitizers.sh says of a test whose run ends well after these words, and its exit status."""
        (self.folder / "bench").mkdir(exist_ok=True)
        script = self.folder / "bench/sanitizers.sh"
        script.write_text((BENCH / "sanitizers.sh").read_text())
        self.script("cmake", "mkdir -p build-asan\n")
        path = self.script("ctest", f"[[ $* == *--no-tests=error* ]] && echo '{said}'\n")
        done = subprocess.run(["bash", str(script), "asan"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": path, "MILLRACE_SANITIZE_TESTS": "a_test"})
        return done.stdout, done.returncode

    def test_a_test_that_ran_no_case_is_not_clean(self):
        for said, result, status in (("1: [  PASSED  ] 12 tests.", "clean (", 0), ("1: [  PASSED  ] 0 tests.", "no case ran, see build-asan/a_test.log (", 1),
                                     ("", "no case ran, see build-asan/a_test.log (", 1)):
            output, returned = self.sanitized(said)
            self.assertIn("asan a_test: " + result, output)
            self.assertEqual(returned, status)

    def test_where_the_build_fails_no_package_is_installed_any_more(self):
        for name in ("tests", ".ci"):
            (self.folder / name).mkdir()
        shutil.copy(BENCH.parent / "tests/run_all.sh", self.folder / "tests")
        (self.folder / ".ci/install_packages.sh").write_text("[ $# = 0 ] || { sleep 0.2; touch installed; }\n")
        path = self.script("cmake", "exit 3\n")
        done = subprocess.run(["bash", str(self.folder / "tests/run_all.sh")], check=False, stdin=subprocess.DEVNULL, env={**os.environ, "PATH": path})
        self.assertEqual(done.returncode, 3)
        self.assertTrue((self.folder / "installed").exists())


if __name__ == "__main__":
    unittest.main()
