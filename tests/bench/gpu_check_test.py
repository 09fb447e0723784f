#!/usr/bin/env python3
"""bench/gpu_check.sh with programs that are none: there is no GPU where it is tested."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import gpu_report  # noqa: E402
from with_programs import WithPrograms  # noqa: E402

STUB = '''#!/usr/bin/env bash
for flag in "$@"; do
  case $flag in
    --out=*) echo graph >"${flag#*=}" ;;
    --report_out=*) report=${flag#*=} ;;
  esac
done
[ "$1" = run ] || exit 0
[ -n "$report" ] || { echo "the driver's words" >"$CUDA_LOG_FILE"; exit 1; }
case $report in
  *planned.auto.80.json) [ -n "$MENDED" ] || { echo device lost >&2; exit 1; } ;;
  *planned.auto.45.json) [ -n "$FAST" ] || exec sleep 60 ;;
esac
echo '{"runs": [{"status": "OK", "step_seconds": [1]}]}' >"$report"
'''


class CheckTest(WithPrograms):
    """bench/gpu_check.sh with a program that is none."""

    def setUp(self):
        super().setUp()
        self.program = self.folder / "build/bin/millrace"
        self.program.parent.mkdir(parents=True)
        self.program.write_text(STUB)
        self.program.chmod(0o755)
        os.utime(self.program, (1e9, 1e9))

    def check(self, *parts, seconds=100, bundle="", **environment):
        return subprocess.run(
            [str(ROOT / "bench/gpu_check.sh"), str(self.folder / "out"), str(bundle), *parts], capture_output=True, check=False,
            text=True, env={**os.environ, "MILLRACE_GPU_BUILD": str(self.folder / "build"), "MILLRACE_GPU_DRY_RUN": "1",
                            "MILLRACE_GPU_SECONDS": str(seconds), "MENDED": "", "FAST": "", **environment})

    def driver(self, text):
        """A folder with a CUDA driver that is none."""
        (self.folder / "driver.c").write_text(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(self.folder / "libcuda.so.1"), str(self.folder / "driver.c")], check=True)
        return str(self.folder)

    def judged(self):
        """Rows of the report, as of a run on a device."""
        subprocess.run([sys.executable, str(ROOT / "bench/gpu_report.py"), str(self.folder / "out")], check=False, capture_output=True)
        return {row["goal"]: row for row in json.loads((self.folder / "out/results.json").read_text())["goals"]}

    def status(self, label):
        path = self.folder / f"out/{label}.status"
        return path.read_text().strip() if path.exists() else None

    def test_failed_cut_short_and_not_reached_are_told_apart_and_what_is_missing_is_done_later(self):
        done = self.check("budgets", seconds=9)
        self.assertEqual(self.status("resnet50.planned.auto.60"), "0")
        self.assertEqual(self.status("resnet50.planned.auto.80"), "1")
        self.assertRegex(self.status("resnet50.planned.auto.45"), r"^124 ended after")
        self.assertIsNone(self.status("lstm.baseline.off.0"))
        self.assertTrue(done.stdout.endswith("""failed: resnet50.planned.auto.80, exit status 1
  device lost
failed: resnet50.planned.auto.80.again, exit status 1
  the driver's words
"""), done.stdout)
        self.check("budgets", FAST="1", MENDED="1")
        self.assertEqual(self.status("resnet50.planned.auto.45"), "0")
        self.assertEqual(self.status("lstm.baseline.off.0"), "0")
        self.assertEqual(self.status("resnet50.planned.auto.80"), "1", "a failure is a result until there is another build")
        os.utime(self.program)
        self.check("budgets", FAST="1", MENDED="1")
        self.assertEqual(self.status("resnet50.planned.auto.80"), "0")
        self.assertIsNone(self.status("resnet50.planned.auto.80.again"), "nothing of a failure that is mended is left")

    @unittest.skipUnless(shutil.which("dpkg-deb"), "no Debian packages here")
    def test_a_bundle_that_did_not_arrive_or_is_broken_is_not_taken_for_unpacked(self):
        bundle, unpacked = self.folder / "bundle", self.folder / "build/root/unpacked"
        done = self.check("launches", bundle=bundle)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"no .deb in {bundle}", done.stderr)
        cmake = self.folder / "glog/usr/lib/any/cmake/glog"
        for made in (bundle, cmake, self.folder / "glog/DEBIAN"):
            made.mkdir(parents=True)
        (cmake / "glog-modules.cmake").write_text('include("/usr/share/glog/cmake/FindUnwind.cmake")\n')
        (self.folder / "glog/DEBIAN/control").write_text("Package: glog\nVersion: 1\nArchitecture: all\nMaintainer: n\nDescription: d\n")
        subprocess.run(["dpkg-deb", "--build", str(self.folder / "glog"), str(bundle / "a.deb")], check=True, capture_output=True)
        (bundle / "b.deb").write_text("half of one")
        done = self.check("launches", bundle=bundle)
        self.assertEqual((done.returncode, unpacked.exists()), (1, False))
        self.assertIn("could not be unpacked", done.stderr)
        (bundle / "b.deb").unlink()
        self.check("launches", bundle=bundle)
        self.assertTrue(unpacked.exists())
        self.assertIn(f'"{unpacked.parent}/usr/share/glog/', next(unpacked.parent.rglob("glog-modules.cmake")).read_text())
        (bundle / "a.deb").unlink()
        self.check("launches", bundle=bundle)
        self.assertEqual(self.status("chain.baseline.on.0"), "0", "what is unpacked needs no bundle")

    def test_half_a_graph_is_not_taken_for_one(self):
        # The first graph is left as half of one.
        self.program.write_text("""#!/usr/bin/env bash
for flag in "$@"; do [[ $flag != --out=* ]] || out=${flag#*=}; done
for flag in "$@"; do [[ $flag != --graph=*.pb ]] || grep -q whole "${flag#*=}" || exit 7; done
[ "$1" != model ] || [ -e "$STUB.once" ] || { touch "$STUB.once"; echo half >"$out"; exit 1; }
[ "$1" != model ] || { echo whole >"$out"; exit; }
exec bash "$STUB" "$@"
""")
        (self.folder / "stub").write_text(STUB)
        self.check("budgets", FAST="1", MENDED="1", STUB=str(self.folder / "stub"))
        self.assertIsNone(self.status("resnet50.planned.auto.60"))
        self.assertEqual(self.status("resnet50.planned.auto.80"), "0")

    @unittest.skipUnless(shutil.which("cc"), "no compiler")
    def test_a_driver_that_does_not_answer_is_not_taken_for_a_missing_device(self):
        driver = self.driver("int cuInit(unsigned flags) { return 802; }\n")
        self.program.write_text('#!/usr/bin/env bash\n[ "$1" = model ] || { echo system not yet initialized >&2; exit 1; }\n' + STUB)
        self.check("device", MILLRACE_GPU_DRY_RUN="0", LD_LIBRARY_PATH=driver)
        rows = {row["goal"]: row for row in json.loads((self.folder / "out/results.json").read_text())["goals"]}
        self.assertEqual(rows["the device opens"]["verdict"], "MISSED")
        self.assertIn("system not yet initialized", rows["the device opens"]["why"])

    def test_what_the_device_is_wrong_with_is_known_before_the_tests_are_built(self):
        order = self.folder / "order"
        self.script("cmake", "")
        path = self.script("ninja", f'echo "built ${{*:7}}" >>{order}\n')
        self.program.write_text(f"""#!/usr/bin/env bash
echo "$1" >>{order}
[ "$1" = model ] && {{ for flag in "$@"; do [[ $flag != --out=* ]] || echo graph >"${{flag#*=}}"; done; exit 0; }}
echo cuDNN is too old >&2; exit 1
""")
        done = self.check("build", PATH=path)
        first = ["built millrace_main millrace_cuda_plugin", "model", "run", "built cuda_test"]
        self.assertEqual(order.read_text().splitlines(), first)
        self.assertIn("the device does not open:\ncuDNN is too old", done.stdout)
        for parts, tests in ((["nets", "sessions"], "random_nets_test failing_steps_test session_test"), (["sessions"], "session_test")):
            order.unlink()
            self.check("build", *parts, PATH=path)
            self.assertEqual(order.read_text().splitlines()[:5], [*first, f"built {tests}"], "by one ninja")

    def test_only_what_is_an_architecture_is_taken_for_one(self):
        seen = self.folder / "seen"
        self.script("cmake", f'echo "$*" >>{seen}\n')
        self.script("ninja", "")
        for answer, taken in (("9.0", "90"), ("12.1", "121"), ("NVIDIA-SMI has failed because it could not talk to the driver.", "90"), ("", "90")):
            path = self.script("nvidia-smi", f'echo "{answer}"\n')
            self.check("build", PATH=path)
            self.assertIn(f" -DMILLRACE_CUDA_ARCHITECTURES={taken}-real ", seen.read_text().splitlines()[-1])

    def test_nothing_begins_when_the_time_is_over(self):
        began = self.folder / "began"
        path = self.script("ninja", f"touch {began}\nsleep 60\n")
        self.check("build", "conformance", "nets", "sessions", "stream", seconds=3, PATH=path)
        self.assertFalse(began.exists())
        self.assertEqual(list((self.folder / "out").glob("*_test.build.status")), [])

    def test_a_test_that_does_not_build_or_start_is_a_miss_and_is_built_once(self):
        built = self.folder / "built"
        path = self.script("ninja", f'echo "${{*:7}}" >>{built}\necho "error: no such kernel" >&2\nexit 1\n')
        parts = ("conformance", "nets", "sessions", "stream")
        self.check(*parts, PATH=path)
        names = ["cuda_test", "random_nets_test", "failing_steps_test", "session_test", "stream_test"]
        self.assertEqual(built.read_text().splitlines(), names)
        goals = ["conformance cases on the device", "random networks on the device: Images", "random networks on the device: FailingSteps",
                 "what sessions promise, on the device: share 0", "stream engine, emulated"]
        rows = self.judged()
        for goal in goals:
            self.assertEqual(rows[goal]["verdict"], "MISSED", goal)
            self.assertIn("no such kernel", rows[goal]["why"])
        tests = self.program.with_name("cuda_test")
        tests.write_text("#!/usr/bin/env bash\necho no libcudart >&2; exit 127\n")
        tests.chmod(0o755)
        self.check("conformance", PATH=self.script("ninja", ""))
        self.assertIn("no libcudart", self.judged()["conformance cases on the device"]["why"])

    def test_what_a_former_build_gave_is_not_shown(self):
        self.check("launches")
        (self.folder / "out/about.json").write_text("{}")
        os.utime(self.program, (4e9, 4e9))
        self.check("stream", PATH=self.script("ninja", "exit 1\n"))
        self.assertIsNone(self.status("chain.baseline.on.0"))
        self.assertEqual(self.judged()["launch overhead as graph: microseconds a node"]["verdict"], "not run")
        self.assertFalse((self.folder / "out/about.json").exists())
        self.check("launches")
        self.assertEqual(self.status("chain.baseline.on.0"), "0")

    def test_folders_are_the_callers_and_are_made(self):
        run = lambda **environment: subprocess.run(  # noqa: E731
            [str(ROOT / "bench/gpu_check.sh"), "own/out", "", "launches"], capture_output=True, check=False, text=True, cwd=self.folder,
            env={**os.environ, "MILLRACE_GPU_BUILD": "build", "MILLRACE_GPU_COPY": "taken/away", "MENDED": "", "FAST": "", **environment})
        run(MILLRACE_GPU_DRY_RUN="1")
        self.assertEqual((self.folder / "own/out/chain.baseline.on.0.status").read_text().strip(), "0")
        self.assertEqual(sorted(os.listdir(self.folder / "taken/away")), ["logs.tar.gz", "results.json", "summary.md"])
        shutil.rmtree(self.folder / "taken")
        (self.folder / "taken").touch()
        self.assertEqual(run(MILLRACE_GPU_DRY_RUN="1").returncode, 2)

    def test_python_is_needed(self):
        (self.folder / "programs").mkdir()
        (self.folder / "programs/bash").symlink_to(shutil.which("bash"))
        done = self.check("launches", PATH=str(self.folder / "programs"))
        self.assertEqual((done.returncode, done.stderr), (2, "gpu_check: python3 is needed\n"))

    def test_the_driver_that_is_found_by_itself_is_found_before_the_bundle_and_the_system(self):
        seen = self.folder / "seen"
        self.program.write_text(f'#!/usr/bin/env bash\necho "$LD_LIBRARY_PATH" >>{seen}\n' + STUB)
        path = self.script("ldconfig", """cat <<'END'
2 libs found in cache `/etc/ld.so.cache'
\tlibcuda.so.1 (libc6) => /usr/lib32/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda/compat/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1
END
""")
        root = self.folder / "build/root"
        root.mkdir()
        (root / "unpacked").touch()
        self.check("launches", bundle=self.folder, PATH=path, LD_LIBRARY_PATH="/own")
        folders = [folder for folder in seen.read_text().splitlines()[0].split(":") if folder != "/usr/local/nvidia/lib64"]
        self.assertEqual(folders[:4], ["/own", "/usr/local/cuda/compat", "/usr/lib/x86_64-linux-gnu", f"{root}/usr/lib/x86_64-linux-gnu"])

    def test_families_that_no_device_ran_come_first_and_those_without_kernels_last(self):
        families = ["array", "audio", "conv", "loss", "linalg", "matmul", "more_audio", "more_linalg", "reduction", "variable"]
        tests = self.program.with_name("cuda_test")
        tests.write_text("""#!/usr/bin/env bash
[ "$1" = --gtest_list_tests ] || exit 0
echo "HostTest."; echo "  PassesTheCases/conv"; echo "Families/CudaDeviceTest."
""" + "".join(f"echo '  PassesTheCases/{name}  # GetParam() = \"{name}\"'\n" for name in families))
        tests.chmod(0o755)
        self.check("conformance")
        self.assertEqual([line.split("/")[-1] for line in (self.folder / "out/conformance/tests.txt").read_text().split()],
                         ["linalg", "conv", "matmul", "reduction", "array", "variable", "more_linalg", "loss", "audio", "more_audio"])
        self.assertEqual({self.status(f"conformance/{name}") for name in families}, {"0"})

    def test_a_graph_that_does_not_agree_runs_again_with_less(self):
        path = self.script("python3", f"""case "$*" in
  *numpy*) exit 0 ;;
  *run_fixture.py*googlenet*--fuse=off*) exit 0 ;;
  *run_fixture.py*googlenet*) echo "norm 1, TensorFlow has 2"; exit 1 ;;
  *run_fixture.py*) exit 0 ;;
esac
exec {sys.executable} "$@"
""")
        self.check("fixtures", PATH=path)
        runs = {run.stem: self.status(f"fixtures/{run.stem}") for run in (self.folder / "out/fixtures").glob("*.status")}
        self.assertEqual({name: status for name, status in runs.items() if status != "0" or "." in name},
                         {"googlenet": "1", "googlenet.baseline": "1", "googlenet.plain": "0"})
        names = {name for name in os.listdir(ROOT / "tests/e2e/fixtures") if (ROOT / "tests/e2e/fixtures" / name).is_dir()}
        self.assertEqual(set((self.folder / "out/fixtures/names").read_text().split()), names)
        self.assertEqual((self.folder / "out/bits/names").read_text().split(), ["mlp_ref", "lstm_ptb"])

    def test_each_call_of_the_peers_has_its_own_log(self):
        path = self.script("python3", f"""case "$*" in *peers_gpu.py*) echo "$*"; [[ $* != *compile* ]]; exit ;; esac
exec {sys.executable} "$@"
""")
        self.check("peers", "others", PATH=path)
        for label, variants, status in (("peers", "eager", "0"), ("peers_compile", "compile", "1"),
                                        ("peers_eager,offload,checkpoint", "eager,offload,checkpoint", "0")):
            self.assertEqual(self.status(label), status)
            self.assertIn(f"--variants={variants}\n", (self.folder / f"out/{label}.log").read_text())

    @unittest.skipUnless(shutil.which("cc"), "no compiler")
    def test_sanitizers_watch_the_kernels_of_this_project(self):
        driver = self.driver("int cuInit(unsigned flags) { return 0; }\nint cuDeviceGetCount(int* count) { *count = 1; return 0; }\n")
        for help_text, options in (("--kernel-name arg --report-api-errors arg", "--kernel-name kernel_substring=millrace "), ("", "")):
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            path = self.script("compute-sanitizer", f'[ "$1" = --help ] && echo "{help_text}" || echo "$*"\n')
            self.check("sanitizer", MILLRACE_GPU_DRY_RUN="0", LD_LIBRARY_PATH=driver, PATH=path)
            log = (self.folder / "out/sanitizer/racecheck.norm.log").read_text()
            self.assertTrue(log.startswith(f"--tool racecheck --error-exitcode 9 {options}{self.program.parent}/cuda_test "), log)
            errors = "--report-api-errors no " if help_text else ""
            self.assertIn(f" {options}{errors}/", (self.folder / "out/sanitizer/memcheck.norm.log").read_text())

    @staticmethod
    def shares(text):
        return {part: int(seconds) for part, seconds in re.findall(r"\[(\w+)\]=(\d+)", text.split("declare -A share=(")[1].split(")")[0])}

    @staticmethod
    def calls(text):
        return {call: parts.split() for call, parts in re.findall(r'\[(\w+)\]="([^"]+)"', text.split("declare -A calls=(")[1].split(")")[0])}

    def test_a_part_that_fills_its_time_leaves_the_others_theirs(self):
        text = (ROOT / "bench/gpu_check.sh").read_text()
        functions = "\n".join(re.search(pattern, text, re.MULTILINE | re.DOTALL).group(0) for pattern in (
            r'^known=.*?$', r"^declare -A share=.*?\)$", r"^declare -A calls=.*?\)$", r"^begins\(\) \{.*?^\}$", r"^left\(\) .*?$"))
        # The build takes its share in a first call, no time in the next ones; every other part all that it is given.
        script = functions + """
log() { :; }
unset SECONDS  # which then is a variable like others: no second passes but those given here
parts=" ${calls[$CALL]} " SECONDS=0 deadline=570 part_end=570
for part in ${known/ warm / }; do
  begins $part || continue
  echo $part $(left)
  [ $part = build ] && SECONDS=$BUILD_SECONDS || SECONDS=$((SECONDS + $(left)))
done
"""
        shares, calls = self.shares(text), self.calls(text)
        for call, parts in calls.items():
            seconds = {"CALL": call, "BUILD_SECONDS": str(shares["build"]) if call == "first" else "0"}
            done = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, check=True, env={**os.environ, **seconds})
            given = {part: int(seconds) for part, seconds in map(str.split, done.stdout.splitlines())}
            self.assertEqual(list(given), [part for part in parts if shares[part] > 0], "none begins without time")
            for part, seconds in given.items():
                self.assertGreaterEqual(seconds, shares[part], part)

    @unittest.skipUnless((ROOT / ".git").exists(), "no checkout")
    def test_a_bundle_that_is_too_large_beside_the_tree_is_refused_with_both_sizes(self):
        self.script("apt-get", "touch some.deb\n")
        self.script("g++", 'echo "x.o: usr/include/boost/used.hpp"\n')
        path = self.script("dpkg-deb", """if [ "$1" != --extract ]; then
  tar -cf "${@: -1}" -C "${@: -2:1}" usr
else
  include=$3/usr/include/boost lib=$3/usr/lib/x86_64-linux-gnu
  mkdir -p $include/config $lib/cmake $3/usr/share/doc/some
  touch $include/{version,used,unused}.hpp $include/config/gcc.hpp $lib/lib{wanted,other}.a $lib/libother.so $3/usr/share/doc/some/README
  echo '"/usr/lib/libwanted.a"' >$lib/cmake/wanted.cmake
fi
""")
        run = lambda limit: subprocess.run(  # noqa: E731
            [str(ROOT / "bench/gpu_bundle.sh"), str(self.folder / "bundle")], capture_output=True, check=False, text=True,
            env={**os.environ, "PATH": path, "MILLRACE_GPU_TRAVELS": str(limit)})
        small = run(1 << 30)
        self.assertEqual((small.returncode, small.stderr), (0, ""))
        packed = subprocess.run(["tar", "-tf", self.folder / "bundle/bundle.deb"], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(sorted(os.path.basename(name) for name in packed if not name.endswith("/")),
                         ["gcc.hpp", "libother.so", "libwanted.a", "used.hpp", "version.hpp", "wanted.cmake"])
        bundle = self.folder / "bundle/bundle.deb"
        size = bundle.stat().st_size
        large = run(100000)
        self.assertEqual((large.returncode, large.stderr), (1, "gpu_bundle: more than 100000 bytes\n"))
        self.assertRegex(large.stdout, rf"{size} bytes in .*; the tree: \d+; together \d+ of 100000$")
        self.assertFalse(bundle.exists())

    def test_what_it_ran_on_is_written_down(self):
        (self.folder / "opens.log").write_text("I cuda_services.cc:36] cuda:0: to cuDNN 91900 it is {}\n")
        subprocess.run([sys.executable, str(ROOT / "bench/gpu_about.py"), str(self.folder), "emulated"], check=True,
                       env={**os.environ, "MILLRACE_GPU_COMMIT": "abc"})
        about = json.loads((self.folder / "about.json").read_text())
        self.assertEqual(list(about), gpu_report.ABOUT)
        self.assertEqual((about["cuDNN"], about["commit"]), ("91900", "abc"))
        self.assertIn("cores of", about["machine"])

    def test_the_parts_of_a_call_have_the_seconds_of_the_table(self):
        text = (ROOT / "bench/gpu_check.sh").read_text()
        table = {part: int(seconds) for part, seconds in re.findall(r"^#   (\w+) +(\d+)   ", text, re.MULTILINE)}
        shares, calls = self.shares(text), self.calls(text)
        self.assertEqual(table, shares)
        self.assertEqual(list(table), re.search(r'^known="(.*)"$', text, re.MULTILINE).group(1).split())
        self.assertEqual(sorted({part for parts in calls.values() for part in parts}), sorted(shares), "every part is in a call")
        for call, parts in calls.items():
            built = [part for part in parts if call == "first" or part != "build"]
            self.assertLessEqual(sum(shares[part] for part in built), 570, call)

    def test_a_call_is_its_parts(self):
        done = self.check("third", "no_such_part")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no part 'no_such_part'", done.stderr)
        for parts in (("third",), ("third", "third"), ("sizes", "third")):
            printed = self.check(*parts, seconds=5).stdout
            begun = re.findall(r"^[\d:]{8} (\w+)(?:, within|: no time is left)", printed, re.MULTILINE)
            self.assertEqual(begun, ["build", "sessions", "sizes", "others", "stream"], parts)

    def test_what_the_report_knows_is_what_the_script_runs(self):
        text = (ROOT / "bench/gpu_check.sh").read_text()
        self.assertEqual(sorted(re.findall(r'^  "(\w+) \d+GB ', text, re.MULTILINE)), sorted(gpu_report.SIZES))
        self.assertIn(f"for kind in {' '.join(gpu_report.NETS)};", text)
        self.assertIn(f"for share in {' '.join(map(str, gpu_report.SESSIONS))};", text)
        self.assertIn(f"chain_graph.py {gpu_report.CHAIN_NODES} ", text)
        self.assertIn(f"--steps={gpu_report.STEPS} ", text)
        self.assertIn("--steps=4 --device_memory=", text, "the first steps of a size load kernels and are captured")

    @unittest.skipUnless(os.environ.get("MILLRACE_PROGRAM"), "MILLRACE_PROGRAM is not set")
    def test_the_chain_is_as_many_nodes_in_the_plan(self):
        graph, report = self.folder / "chain.pbtxt", self.folder / "report.json"
        subprocess.run([sys.executable, str(ROOT / "bench/chain_graph.py"), "2000", str(graph)], check=True)
        subprocess.run([os.environ["MILLRACE_PROGRAM"], "run", f"--graph={graph}", "--fetches=result:0", "--synthetic_feeds", "--fuse=on",
                        "--strategy=baseline", f"--report_out={report}"], check=True, capture_output=True)
        self.assertEqual(json.loads(report.read_text())["runs"][0]["devices"][0]["nodes"], 2000)


if __name__ == "__main__":
    unittest.main()
