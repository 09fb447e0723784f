#!/usr/bin/env python3
"""The scripts that report on a GPU, on made-up results: there is none where they are tested."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import gpu_report  # noqa: E402
import peers_gpu  # noqa: E402


def run_report(folder, *options):
    """(exit status, {goal: row})."""
    done = subprocess.run([sys.executable, str(ROOT / "bench/gpu_report.py"), str(folder), *options], capture_output=True,
                          text=True, check=False)
    assert not done.stderr, done.stderr
    rows = json.loads((folder / "results.json").read_text())["goals"]
    assert (folder / "summary.md").read_text().count("\n|") == len(rows) + 2
    return done.returncode, {row["goal"]: row for row in rows}


def report_of(seconds, steps=40, digest="d", **more):
    return json.dumps({"runs": [{"status": "OK", "step_seconds": [seconds] * steps, "variables_digest": digest, **more}]})


def trace_of(copies, kernels=((0, 5000),)):
    """A trace with kernels (start, end) and copies (lane, bytes, start, end) in microseconds."""
    events = [{"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "measured"}}]
    events += [{"ph": "X", "pid": 2, "cat": "compute", "ts": a, "dur": b - a, "args": {"op": "Conv2D"}} for a, b in kernels]
    events += [{"ph": "X", "pid": 2, "cat": lane, "ts": a, "dur": b - a, "args": {"bytes": size}} for lane, size, a, b in copies]
    return json.dumps({"traceEvents": events})


def plan_of(seconds):
    return f"plan planned  nodes 3\nseconds  step 9  compute {seconds}  lower_bound 9\n"


PASSED = "120 cases passed on NVIDIA H200\n"
SKIPPED = "conformance_test.cc:55: Skipped\ncuda:0: cuDNN 90100 is too old, 90800 is needed\n[  SKIPPED ] Families/layout\n"
NO_MEMORY = json.dumps({"runs": [{"status": "RESOURCE_EXHAUSTED", "error": "does not fit"}]})
BITS = "same bits as graph, as streams, at 80, 60 and 45 %"


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        for name in ("conformance", "fixtures", "bits", "sanitizer", "nets", "sessions"):
            (self.folder / name).mkdir()

    def tearDown(self):
        self.temporary.cleanup()

    def write(self, files):
        for name, text in files.items():
            if text is None:
                (self.folder / name).unlink(missing_ok=True)
            else:
                (self.folder / name).write_text(text)

    def judged(self, **files):
        """Rows of all goals met but for what `files`, by name with __ for a dot and ___ for a slash, change."""
        self.write({**self.everything(), **{name.replace("___", "/").replace("__", "."): text for name, text in files.items()}})
        return run_report(self.folder)

    def everything(self):
        files = {"build.seconds": "200", "build.status": "0", "stream_test.status": "0", "opens.status": "0 ", "too_large.status": "1",
                 "too_large.log": "cuda:0: cannot allocate 9 bytes of device memory, 5 of 6 are free; lower --device_memory\n",
                 "hidden.status": "1", "hidden.log": "no CUDA device 0: the driver sees 0 devices\n",
                 "conformance/conv.status": "0", "conformance/conv.log": PASSED, "fixtures/lstm_ptb.status": "0",
                 "bits/mlp_ref.status": "0", "sanitizer/families": "reduction layout\n", "copies.status": "0",
                 "about.json": json.dumps({"device": "NVIDIA H200", "commit": "abc", "cuDNN": "91900"})}
        files.update({f"nets/{kind}.status": "0 " for kind in gpu_report.NETS})
        files.update({f"sessions/{share}.status": "0 " for share in gpu_report.SESSIONS})
        for tool in ("memcheck", "racecheck", "synccheck"):
            for family in ("reduction", "layout"):
                files.update({f"sanitizer/{tool}.{family}.status": "0", f"sanitizer/{tool}.{family}.log": PASSED})
        peers = [{"model": "copy", "variant": "pinned", "to_host_bytes_per_second": 50e9, "to_device_bytes_per_second": 50e9}]
        for model in gpu_report.MODELS:
            for run in (*gpu_report.compared(model), "measured.auto.0", "unfused.auto.0", "queues.auto.60"):
                files[f"{model}.{run}.json"] = report_of(0.1, lower_bound_seconds=0.099, measured_times=1)
                files[f"{model}.{run}.status"] = "0 "
            files[f"{model}.planned.auto.60.plan.txt"] = plan_of(0.099)
            files[f"{model}.baseline.auto.0.log"] = "nothing of note\n"
            peers.append({"model": model, "variant": "eager", "step_seconds": 0.11, "peak_bytes": 1, "millrace_seconds": 0.1})
            peers.append({"model": model, "variant": "offload", "step_seconds": 0.2, "peak_bytes": 1, "millrace_seconds": 0.1})
        files.update({"resnet50.last.auto.0.json": report_of(0.12), "resnet50.tf32.auto.0.json": report_of(0.05)})
        files["peers_tf32.json"] = json.dumps([{"model": "resnet50", "variant": "eager", "step_seconds": 0.06}])
        for graph in ("auto", "off"):
            files[f"lstm_dropout.baseline.{graph}.0.json"] = report_of(0.1)
        for graph in ("on", "off"):
            files[f"chain.baseline.{graph}.0.json"] = report_of(0.002, devices=[{"nodes": 2000}])
        files["copies.trace.json"] = trace_of([(lane, 48 << 20, 1000, 2000) for lane in ("to-host", "to-device")])
        for size in gpu_report.SIZES:
            files[f"{size}.json"] = report_of(2.0, steps=2)
        files["peers.json"] = json.dumps(peers)
        return files

    def test_goals_that_are_met(self):
        status, rows = self.judged()
        self.assertEqual([goal for goal, row in rows.items() if row["verdict"] != "met"], [])
        self.assertEqual(status, 0)
        self.assertAlmostEqual(rows["resnet50: baseline step over PyTorch eager's"]["measured"], 0.1 / 0.11)
        self.assertAlmostEqual(rows["resnet50 with TF32: baseline step over PyTorch eager's"]["measured"], 0.05 / 0.06)
        self.assertAlmostEqual(rows["copies to-host beside compute over a plain pinned copy"]["measured"], (48 << 20) / 1e-3 / 50e9)
        self.assertAlmostEqual(rows["launch overhead as graph: microseconds a node"]["measured"], 1.0)

    def test_each_goal_is_missed_by_itself(self):
        cases = {"conformance on the device: conv": {"conformance/conv.status": "1"},
                 "TensorFlow's results, planned at 60 %: lstm_ptb": {"fixtures/lstm_ptb.status": "1"},
                 "same bits on the device under partition sizes and strategies: mlp_ref": {"bits/mlp_ref.status": "1"},
                 "random networks on the device: Images": {"nets/Images.status": "1"},
                 "what sessions promise, on the device: share 2": {"sessions/2.status": "1"},
                 "build from source, seconds": {"build.seconds": "301"},
                 "the device opens": {"opens.status": "1 "},
                 "a budget above the device's memory is refused": {"too_large.status": "0"},
                 "no visible device is refused": {"hidden.log": "Segmentation fault\n"},
                 f"lstm: {BITS}": {"lstm.planned.auto.45.json": report_of(0.1, digest="e")},
                 f"moe_transformer: {BITS}": {"moe_transformer.planned.auto.80.json": NO_MEMORY},
                 f"unet3d: {BITS.replace('45', '50')}": {"unet3d.planned.auto.50.json": report_of(0.1, steps=3)},
                 "lstm with dropout: same bits as graph and as streams": {"lstm_dropout.baseline.off.0.json": report_of(1, digest="e")},
                 "resnet50: step at 80 % over baseline's": {"resnet50.planned.auto.80.json": report_of(0.102)},
                 "resnet50 with TF32: baseline step over PyTorch eager's": {"resnet50.tf32.auto.0.json": report_of(0.07)},
                 "unet3d: step at 60 % over its lower bound": {"unet3d.planned.auto.60.json": report_of(
                     0.1, lower_bound_seconds=0.09, measured_times=1)},
                 "launch overhead as streams: microseconds a node": {"chain.baseline.off.0.json": report_of(1, devices=[{"nodes": 5}])},
                 "lstm: nodes that are left to the host": {"lstm.baseline.auto.0.log": "node 'a' (Where) runs on the host\n"},
                 "compute-sanitizer memcheck": {"sanitizer/memcheck.layout.status": "9"},
                 "moe_48 trains in 12 GB: seconds of a step": {"moe_48.json": NO_MEMORY}}
        for goal, files in cases.items():
            with self.subTest(goal):
                self.write({**self.everything(), **files})
                status, rows = run_report(self.folder)
                self.assertEqual([g for g, row in rows.items() if row["verdict"] == "MISSED"], [goal])
                self.assertEqual(status, 1)

    def test_graphs_that_do_not_agree_are_said_to_with_less(self):
        _, rows = self.judged(fixtures___lstm_ptb__status="1", fixtures___lstm_ptb__log="loss of step 0: 1, TensorFlow has 2\n",
                              **{"fixtures/lstm_ptb.baseline.status": "1", "fixtures/lstm_ptb.plain.status": "0"})
        goals = [goal for goal in rows if goal.startswith("TensorFlow's results")]
        self.assertEqual(goals, ["TensorFlow's results, planned at 60 %: lstm_ptb"])
        why = rows[goals[0]]["why"]
        self.assertTrue(why.startswith("without a budget: MISSED; nor rewrites: agrees; "), why)
        self.assertIn("TensorFlow has 2", why)

    def test_what_was_cut_short_is_not_met_and_takes_nothing_else_along(self):
        cut = "124 took longer than its 60 s"
        status, rows = self.judged(lstm__baseline__auto__0__json='{"runs": [{"st', lstm__baseline__auto__0__status=cut, peers__json="[",
                                   copies__trace__json="", copies__status=cut, conformance___conv__status="124",
                                   fixtures___lstm_ptb__status="124", moe_12__json=None, moe_12__status=cut, moe_48__json=None)
        self.assertEqual(status, 0)
        for goal in ("lstm: seconds of a baseline step", "conformance on the device: conv", "moe_12 trains in 12 GB: seconds of a step",
                     "copies to-host beside compute over a plain pinned copy", "TensorFlow's results, planned at 60 %: lstm_ptb"):
            self.assertEqual(rows[goal]["verdict"], "cut short", goal)
        self.assertIn("took longer than its 60 s", rows["moe_12 trains in 12 GB: seconds of a step"]["why"])
        self.assertEqual(rows["moe_48 trains in 12 GB: seconds of a step"]["verdict"], "not run")
        self.assertEqual(rows["resnet50: seconds of a baseline step"]["verdict"], "met")

    def test_a_device_that_cannot_be_used_is_a_miss_that_says_why(self):
        status, rows = self.judged(opens__status="1 ", opens__log="I cuda\nmillrace: libcublasLt.so.13 was not found\n",
                                   conformance___conv__log=SKIPPED)
        self.assertEqual(status, 1)
        self.assertEqual(rows["the device opens"]["verdict"], "MISSED")
        self.assertIn("libcublasLt.so.13 was not found", rows["the device opens"]["why"])
        self.assertEqual(rows["conformance on the device: conv"]["verdict"], "MISSED")
        self.assertIn("cuDNN 90100 is too old", rows["conformance on the device: conv"]["why"])

    def test_a_run_that_ended_as_it_was_told_to_is_cut_short(self):
        told = json.dumps({"runs": [{"status": "CANCELLED", "error": "interrupted after step 3 of 25", "step_seconds": [1, 1, 1]}]})
        status, rows = self.judged(lstm__baseline__auto__0__json=told, lstm__baseline__auto__0__status="124 ended after 9 s")
        self.assertEqual((status, rows["lstm: seconds of a baseline step"]["verdict"]), (0, "cut short"))

    def test_what_is_printed_ends_with_what_failed_and_is_short(self):
        self.write({**self.everything(), "conformance/conv.status": "1", "conformance/conv.log": "a\n\nb\nc\nwhy\n",
                    "conformance/conv.cudnn.txt": "cuDNN's words\n", "moe_12.status": "124 took longer than its 60 s"})
        for i in range(100):
            self.write({f"bits/{i}.status": "1", f"bits/{i}.log": f"{i}" * 100})
            os.utime(self.folder / f"bits/{i}.status", (4e9 + i, 4e9 + i))
        printed = subprocess.run([sys.executable, str(ROOT / "bench/gpu_report.py"), str(self.folder)], capture_output=True, text=True,
                                 check=False).stdout
        verdicts, logs = printed[:printed.index("failed: ")], printed[printed.index("failed: "):]
        self.assertTrue(logs.startswith("failed: conformance/conv, exit status 1\n  b\n  c\n  why\n  cuDNN's words\nfailed: bits/0,"), logs)
        self.assertRegex(logs, r"\nand \d+ more that failed\n$")
        self.assertLess(len(logs), gpu_report.PRINTED_LOGS + 50)
        self.assertNotIn("moe_12", logs)
        self.assertNotIn("too_large", logs)
        self.assertLess(verdicts.index("cut short  moe_12"), verdicts.index("MISSED "))
        self.assertGreater(verdicts.index("MISSED "), verdicts.rindex("\nmet "))

    def test_families_that_were_not_reached_are_named(self):
        _, rows = self.judged(conformance___tests__txt="Families/CudaDeviceTest.Passes/conv\nFamilies/CudaDeviceTest.Passes/pool\n")
        self.assertEqual(rows["conformance on the device: pool"]["verdict"], "not run")

    def test_graphs_that_were_not_reached_are_named(self):
        _, rows = self.judged(fixtures___names="googlenet\nlstm_ptb\n", bits___names="mlp_ref lstm_ptb\n")
        for goal, verdict in (("TensorFlow's results, planned at 60 %: googlenet", "not run"),
                              ("TensorFlow's results, planned at 60 %: lstm_ptb", "met"),
                              ("same bits on the device under partition sizes and strategies: lstm_ptb", "not run"),
                              ("same bits on the device under partition sizes and strategies: mlp_ref", "met")):
            self.assertEqual(rows[goal]["verdict"], verdict, goal)

    def test_tests_that_do_not_build_are_misses_beside_former_results(self):
        status, rows = self.judged(cuda_test__build__status="1 ", cuda_test__build__log="error: no such kernel\n")
        self.assertEqual((status, rows["conformance on the device: conv"]["verdict"]), (1, "met"))
        self.assertEqual(rows["conformance cases on the device"]["verdict"], "MISSED")
        self.assertIn("no such kernel", rows["conformance cases on the device"]["why"])

    def test_runs_that_fail_are_misses_with_the_reason(self):
        cases = {"does not fit": {"resnet50.planned.auto.80.json": NO_MEMORY},
                 "exit status 1: I / device lost": {"resnet50.planned.auto.80.json": None, "resnet50.planned.auto.80.status": "1 ",
                                                "resnet50.planned.auto.80.log": "I\n\ndevice lost\n"},
                 "exit status 139": {"resnet50.planned.auto.80.status": "139 "},
                 "no step in its report": {"resnet50.planned.auto.80.json": '{"runs": []}'},
                 "peak of 9 bytes in a budget of 8": {"resnet50.planned.auto.80.json": report_of(
                     0.1, peak_device_bytes=9, device_memory_budget_bytes=8)},
                 "a loss is not finite": {"resnet50.planned.auto.80.json": report_of(0.1, losses=["NaN"])},
                 "exit status 2": {"resnet50.planned.auto.80.json": None, "resnet50.planned.auto.80.status": None,
                                   "resnet50.model.status": "2", "resnet50.model.log": "usage\n"}}
        for why, files in cases.items():
            with self.subTest(why):
                self.write({**self.everything(), "resnet50.model.status": None, **files})
                status, rows = run_report(self.folder)
                self.assertEqual(status, 1)
                for goal in ("resnet50: step at 80 % over baseline's", f"resnet50: {BITS}"):
                    self.assertEqual(rows[goal]["verdict"], "MISSED", goal)
                    self.assertIn(why, rows[goal]["why"])
                self.assertEqual(rows[f"resnet50: {BITS}"]["measured"], "1 in 4 of 5 runs")

    def test_a_size_that_crashes_without_a_report_is_a_miss(self):
        status, rows = self.judged(moe_48__json=None, moe_48__status="137 ", moe_48__log="terminate called\n")
        self.assertEqual((status, rows["moe_48 trains in 12 GB: seconds of a step"]["verdict"]), (1, "MISSED"))
        self.assertIn("terminate called", rows["moe_48 trains in 12 GB: seconds of a step"]["why"])

    def test_digests_of_some_runs_are_not_met(self):
        status, rows = self.judged(lstm__planned__auto__45__json=None, lstm__planned__auto__45__status=None)
        row = rows[f"lstm: {BITS}"]
        self.assertEqual((status, row["verdict"], row["measured"]), (0, "cut short", "1 in 4 of 5 runs"))

    def test_a_failure_beside_a_peer_is_a_miss_and_a_peer_that_cannot_run_is_none(self):
        goal = "lstm: step over PyTorch offload's, in its peak memory"
        row = {"model": "lstm", "variant": "offload", "step_seconds": 0.2, "peak_bytes": 1}
        for more, verdict in (({"millrace_error": "exit status 3: does not fit"}, "MISSED"), ({}, "not run"),
                              ({"millrace_error": peers_gpu.TOO_LONG + " 100 s"}, "cut short")):
            _, rows = self.judged(peers__json=json.dumps([{**row, **more}]))
            self.assertEqual(rows[goal]["verdict"], verdict)
        _, rows = self.judged(peers__json=json.dumps([{"model": "lstm", "variant": "eager", "error": "out of memory"}]))
        self.assertEqual(rows["lstm: baseline step over PyTorch eager's"]["verdict"], "not run")
        self.assertIn("out of memory", rows["lstm: baseline step over PyTorch eager's"]["why"])

    def test_a_sanitizer_that_has_seen_no_case_does_not_say_clean(self):
        _, rows = self.judged(sanitizer___racecheck__layout__log=SKIPPED, sanitizer___synccheck__layout__log="0 cases passed on X\n",
                              sanitizer___memcheck__layout__status=None)
        self.assertEqual([rows[f"compute-sanitizer {tool}"]["verdict"] for tool in ("racecheck", "synccheck", "memcheck")],
                         ["MISSED", "MISSED", "cut short"])
        self.assertEqual(rows["compute-sanitizer memcheck"]["measured"], "cases of reduction (120)")
        _, rows = self.judged(sanitizer___racecheck__layout__log=PASSED + "========= RACECHECK SUMMARY: 2 hazards displayed\n")
        self.assertEqual(rows["compute-sanitizer racecheck"]["verdict"], "MISSED")
        for files in ({"sanitizer/absent": "not found"}, {"sanitizer/absent": None, "sanitizer/memcheck.layout.log": "Device not supported"}):
            self.write({**self.everything(), **files})
            self.assertEqual(run_report(self.folder)[1]["compute-sanitizer memcheck"]["verdict"], "not run")

    def test_a_bound_of_times_on_streams_is_brought_down_to_the_graph(self):
        goal = "lstm: step at 60 % over its lower bound"

        def judged(nodes, bound, step, measured_times=1):
            status, rows = self.judged(lstm__baseline__auto__0__json=report_of(0.1), lstm__planned__auto__60__plan__txt=plan_of(nodes),
                                       lstm__planned__auto__60__json=report_of(step, lower_bound_seconds=bound,
                                                                               measured_times=measured_times))
            return status, rows[goal]["verdict"], round(rows[goal]["measured"] or 0, 6)

        # Nodes take 0.15 s with events around them, at most 0.1 s in a graph; copies add 0.02 s.
        self.assertEqual(judged(0.15, 0.17, 0.126), (0, "met", 1.05))
        self.assertEqual(judged(0.15, 0.17, 0.144), (1, "MISSED", 1.2))
        # Nodes that are quicker than baseline's step stay as they are.
        self.assertEqual(judged(0.09, 0.12, 0.126), (0, "met", 1.05))
        # The sum has nodes that are computed again.
        self.assertEqual(judged(0.30, 0.17, 0.105), (0, "met", 1.05))
        self.assertEqual(judged(0.1, 0.2, 0.12), (1, "suspect", 0.6))
        self.assertEqual(judged(0.15, 0.17, 0.126, measured_times=0), (0, "not run", 0))
        self.assertEqual(self.judged(lstm__planned__auto__60__plan__txt=None)[1][goal]["verdict"], "not run")

    def test_copies_count_where_kernels_run_beside_them(self):
        size = 50_000_000
        kernels = [(1000, 2000), (2000, 3000)]
        copies = [("to-device", size, 0, 1000), ("to-device", size, 1500, 2500), ("to-device", 1000, 1500, 1501),
                  ("to-device", size, 2900, 3900), ("to-host", size, 3000, 4000)]
        _, rows = self.judged(copies__trace__json=trace_of(copies, kernels))
        row = rows["copies to-device beside compute over a plain pinned copy"]
        self.assertEqual((row["verdict"], row["measured"]), ("met", 1.0))
        self.assertEqual(row["why"], "1 of 3 copies of 8 MiB or more ran beside compute")
        row = rows["copies to-host beside compute over a plain pinned copy"]
        self.assertEqual((row["verdict"], row["why"]), ("MISSED", "0 of 1 copies of 8 MiB or more ran beside compute"))
        _, rows = self.judged(copies__trace__json=trace_of(copies[1:2], kernels))
        self.assertEqual(rows["copies to-host beside compute over a plain pinned copy"]["verdict"], "not run")

    def test_results_say_what_they_are_of(self):
        self.judged()
        about = json.loads((self.folder / "results.json").read_text())["about"]
        self.assertEqual((about["device"], about["commit"], about["driver"]), ("NVIDIA H200", "abc", "not known"))
        self.assertIn("- device: NVIDIA H200\n", (self.folder / "summary.md").read_text())

    def test_without_device_build_or_pytorch(self):
        status, rows = run_report(self.folder, "--no-device")
        self.assertEqual((status, {row["verdict"] for row in rows.values()}), (0, {"no device"}))
        status, rows = run_report(self.folder, "--build-failed")
        self.assertEqual((status, {row["verdict"] for row in rows.values()}), (1, {"not built"}))
        for log in ("peers.log", "peers_compile.log"):
            self.write({log: "PyTorch is not installed\n", "lstm.baseline.auto.0.json": report_of(0.1)})
            _, rows = run_report(self.folder)
            self.assertEqual(rows["lstm: baseline step over PyTorch eager's"]["verdict"], "no PyTorch", log)
            (self.folder / log).unlink()
        self.write({**self.everything(), "opens.status": "1 "})
        status, rows = run_report(self.folder, "--dry-run")
        self.assertEqual((status, {row["verdict"] for row in rows.values()}), (0, {"tried"}))


class PeersTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def program(self, text):
        path = self.folder / "program"
        path.write_text("#!/usr/bin/env bash\n" + text)
        path.chmod(0o755)
        return str(path)

    def beside(self, text, timeout=20):
        row = {"model": "lstm", "variant": "eager", "step_seconds": 0.1, "peak_bytes": 1000}
        peers_gpu.run_millrace(row, types.SimpleNamespace(cpu=False, millrace=self.program(text), tf32=True, timeout=timeout))
        return row

    def test_a_step_beside_the_peers(self):
        row = self.beside('''[ "$1" = model ] && exit 0
for flag in "$@"; do [[ $flag != --report_out=* ]] || out=${flag#*=}; done
[[ " $* " == *" --device_memory=1000 "* && " $* " == *" --tf32 "* && " $* " == *" --device=cuda "* ]] || exit 1
echo '{"runs": [{"step_seconds": [9, 9, 0.3, 0.1, 0.2, 0.4, 0.5], "peak_device_bytes": 900}]}' >"$out"
''')
        self.assertEqual((row["millrace_seconds"], row["millrace_peak_bytes"]), (0.3, 900))

    def test_a_program_that_fails_hangs_or_says_nothing_is_a_row(self):
        self.assertIn("device lost", self.beside('[ "$1" = model ] && exit 0\necho device lost >&2; exit 1\n')["millrace_error"])
        self.assertIn("longer than 1 s", self.beside("exec sleep 30\n", timeout=1)["millrace_error"])
        self.assertEqual(self.beside("echo why >&2; exit 3\n")["millrace_error"], "exit status 3: why")

    def test_a_step_of_a_run_that_fails_later_does_not_count(self):
        row = self.beside('''[ "$1" = model ] && exit 0
for flag in "$@"; do [[ $flag != --report_out=* ]] || out=${flag#*=}; done
echo '{"runs": [{"step_seconds": [0.1], "peak_device_bytes": 900}]}' >"$out"
echo device lost >&2; exit 1
''')
        self.assertNotIn("millrace_seconds", row)
        self.assertEqual(row["millrace_error"], "exit status 1: device lost")

    def test_eager_convolutions_take_the_better_layout(self):
        times = {False: (0.2, 10), True: (0.1, 20)}
        with unittest.mock.patch.object(peers_gpu, "measure_in", lambda *arguments: times[arguments[-1]]):
            for model in ("unet3d", "resnet50"):
                self.assertEqual(peers_gpu.measure(None, model, "eager", "cuda", 1, False), (0.1, 20))
                times[True] = (0.3, 20)
                self.assertEqual(peers_gpu.measure(None, model, "eager", "cuda", 1, False), (0.2, 10))
                times[True] = (0.1, 20)
        self.assertEqual(peers_gpu.layouts("unet3d", "compile"), [False])
        self.assertEqual(peers_gpu.layouts("lstm", "eager"), [False])

    def test_models_are_compiled_at_once_for_a_later_run(self):
        environment = dict(os.environ)
        try:
            # Each child waits for the other one.
            (self.folder / "torch.py").write_text(f"""
import pathlib, sys, time
one = sys.argv[1].split("=")[1].split(":")
assert one[1] == "compile" and "--steps=1" in sys.argv
folder = pathlib.Path({str(self.folder)!r})
(folder / one[0]).touch()
while len([name for name in ("lstm", "unet3d") if (folder / name).exists()]) < 2:
    time.sleep(0.01)
if one[0] == "lstm":
    print('{{"model": "lstm"}}')
    sys.stdout.flush()
raise SystemExit(0)
""")
            os.environ["PYTHONPATH"] = str(self.folder)
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                peers_gpu.warm(types.SimpleNamespace(models="lstm,unet3d", steps=8, tf32=False, cpu=True, timeout=60))
                (self.folder / "torch.py").write_text("import time\ntime.sleep(60)\n")
                peers_gpu.warm(types.SimpleNamespace(models="lstm", steps=8, tf32=False, cpu=True, timeout=1))
            self.assertRegex(said.getvalue(), r"lstm +compiled after \d+ s\nunet3d +no output\nlstm +took longer than 1 s\n")
        finally:
            os.environ.clear()
            os.environ.update(environment)

    def test_a_peer_that_dies_or_hangs_is_a_row(self):
        arguments = types.SimpleNamespace(steps=1, tf32=False, cpu=True, timeout=30)
        environment = dict(os.environ)
        try:
            # A PyTorch that is not one.
            (self.folder / "torch.py").write_text("raise SystemExit('no such chip')\n")
            os.environ["PYTHONPATH"] = str(self.folder)
            self.assertIn("no such chip", peers_gpu.run_child("lstm", "eager", arguments)["error"])
            (self.folder / "torch.py").write_text("import time\ntime.sleep(60)\n")
            arguments.timeout = 1
            self.assertIn("longer than 1 s", peers_gpu.run_child("lstm", "eager", arguments)["error"])
        finally:
            os.environ.clear()
            os.environ.update(environment)

    def test_rows_of_a_run_that_was_cut_short_are_kept(self):
        path = self.folder / "peers.json"
        rows = [{"model": "lstm", "variant": "eager", "step_seconds": 1}, {"model": "lstm", "variant": "offload", "error": "hung"}]
        path.write_text(json.dumps(rows))
        self.assertEqual(peers_gpu.kept_rows(path), rows[:1])
        rows = [{"millrace_error": "exit status 1: device lost"}, {"millrace_error": peers_gpu.TOO_LONG + " 100 s"}]
        path.write_text(json.dumps(rows))
        self.assertEqual(peers_gpu.kept_rows(path), [rows[0], {}])
        program = self.program("exit 0\n")
        os.utime(program, (2e9 * 2, 2e9 * 2))
        self.assertEqual(peers_gpu.kept_rows(path, program), [{}, {}])
        path.write_text("[")
        self.assertEqual(peers_gpu.kept_rows(path), [])
        self.assertEqual(peers_gpu.kept_rows(self.folder / "none"), [])


if __name__ == "__main__":
    unittest.main()
