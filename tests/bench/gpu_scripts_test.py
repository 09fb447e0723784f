#!/usr/bin/env python3
"""The scripts that report on a GPU, on made-up results: there is none where they are tested, and one session where they count."""
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
    rows = json.loads((folder / "results.json").read_text())
    assert (folder / "summary.md").read_text().count("\n") == len(rows) + 2
    return done.returncode, {row["goal"]: row for row in rows}


def report_of(seconds, steps=25, digest="d", **more):
    return json.dumps({"runs": [{"status": "OK", "step_seconds": [seconds] * steps, "variables_digest": digest, **more}]})


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        for name in ("conformance", "fixtures"):
            (self.folder / name).mkdir()

    def tearDown(self):
        self.temporary.cleanup()

    def write(self, files):
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def everything(self):
        files = {"build.seconds": "200", "build.status": "0", "stream_test.status": "0", "memcheck.status": "0",
                 "conformance/conv.status": "0", "conformance/conv.log": "120 cases passed on NVIDIA H200\n",
                 "fixtures/lstm_ptb.status": "0"}
        peers = [{"model": "copy", "variant": "pinned", "to_host_bytes_per_second": 50e9, "to_device_bytes_per_second": 50e9}]
        for model in gpu_report.MODELS:
            for run in ("baseline.auto.0", "baseline.off.0", "measured.auto.0", "planned.auto.80", "planned.auto.60", "planned.auto.45"):
                files[f"{model}.{run}.json"] = report_of(0.1, lower_bound_seconds=0.099)
            files[f"{model}.baseline.auto.0.log"] = "nothing of note\n"
            peers.append({"model": model, "variant": "eager", "step_seconds": 0.11, "peak_bytes": 1})
            peers.append({"model": model, "variant": "offload", "step_seconds": 0.2, "peak_bytes": 1, "millrace_seconds": 0.1})
        files["resnet50.last.auto.0.json"] = report_of(0.12)
        events = [{"ph": "M", "name": "process_name", "pid": 2, "args": {"name": "measured"}}]
        events += [{"ph": "X", "pid": 2, "cat": lane, "dur": 1000.0, "args": {"bytes": 48 << 20}} for lane in ("to-host", "to-device")]
        files["copies.trace.json"] = json.dumps({"traceEvents": events})
        for size in gpu_report.SIZES:
            files[f"{size}.json"] = report_of(2.0, steps=2)
        files["peers.json"] = json.dumps(peers)
        return files

    def test_goals_that_are_met(self):
        self.write(self.everything())
        status, rows = run_report(self.folder)
        self.assertEqual(status, 0)
        missing = sorted(goal for goal, row in rows.items() if row["verdict"] != "met")
        self.assertEqual(missing, ["compute-sanitizer racecheck", "compute-sanitizer synccheck"])
        self.assertAlmostEqual(rows["resnet50: baseline step over PyTorch eager's"]["measured"], 0.1 / 0.11)
        self.assertAlmostEqual(rows["copies to-host beside compute over a plain pinned copy"]["measured"], (48 << 20) / 1e-3 / 50e9)

    def test_each_goal_is_missed_by_itself(self):
        cases = {"conformance on the device: conv": {"conformance/conv.status": "1"},
                 "TensorFlow's results, planned at 60 %: lstm_ptb": {"fixtures/lstm_ptb.status": "1"},
                 "build from source, seconds": {"build.seconds": "301"},
                 "lstm: same bits as graph, as streams, at 80, 60 and 45 %": {"lstm.planned.auto.45.json": report_of(0.1, digest="e")},
                 "resnet50: step at 80 % over baseline's": {"resnet50.planned.auto.80.json": report_of(0.102)},
                 "unet3d: step at 60 % over its lower bound": {"unet3d.planned.auto.60.json": report_of(0.1, lower_bound_seconds=0.09)},
                 "lstm: nodes that are left to the host": {"lstm.baseline.auto.0.log": "node 'a' (Where) runs on the host\n"},
                 "compute-sanitizer memcheck": {"memcheck.status": "9"},
                 "moe_48 trains in 12 GB: seconds of a step": {"moe_48.json": json.dumps({"runs": [{"status": "no memory"}]})}}
        for goal, files in cases.items():
            with self.subTest(goal):
                self.write({**self.everything(), **files})
                status, rows = run_report(self.folder)
                self.assertEqual([g for g, row in rows.items() if row["verdict"] == "MISSED"], [goal])
                self.assertEqual(status, 1)

    def test_what_was_cut_short_is_not_run_and_takes_nothing_else_along(self):
        files = self.everything()
        files.update({"lstm.baseline.auto.0.json": '{"runs": [{"st', "unet3d.planned.auto.60.json": '{"runs": []}',
                      "peers.json": "[", "copies.trace.json": "", "conformance/conv.status": "124", "build.seconds": "100",
                      "fixtures/lstm_ptb.status": "124", "moe_12.json": ""})
        self.write(files)
        status, rows = run_report(self.folder)
        self.assertEqual(status, 0)
        for goal in ("lstm: seconds of a baseline step", "conformance on the device: conv", "moe_12 trains in 12 GB: seconds of a step",
                     "copies to-host beside compute over a plain pinned copy", "TensorFlow's results, planned at 60 %: lstm_ptb"):
            self.assertEqual(rows[goal]["verdict"], "not run", goal)
        self.assertEqual(rows["resnet50: seconds of a baseline step"]["verdict"], "met")

    def test_fewer_steps_have_no_digest(self):
        self.write({"lstm.baseline.auto.0.json": report_of(0.1, digest="x"), "lstm.baseline.off.0.json": report_of(0.1, steps=3)})
        _, rows = run_report(self.folder)
        self.assertEqual(rows["lstm: same bits as graph, as streams, at 80, 60 and 45 %"]["verdict"], "not run")

    def test_without_device_build_or_pytorch(self):
        status, rows = run_report(self.folder, "--no-device")
        self.assertEqual((status, {row["verdict"] for row in rows.values()}), (0, {"no device"}))
        status, rows = run_report(self.folder, "--build-failed")
        self.assertEqual((status, {row["verdict"] for row in rows.values()}), (1, {"not built"}))
        self.write({"peers.log": "PyTorch is not installed\n"})
        _, rows = run_report(self.folder)
        self.assertEqual(rows["lstm: baseline step over PyTorch eager's"]["verdict"], "no PyTorch")


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    @unittest.skipUnless(os.environ.get("MILLRACE_PROGRAM"), "MILLRACE_PROGRAM is not set")
    def test_the_chain_is_as_many_nodes_in_the_plan(self):
        graph, report = self.folder / "chain.pbtxt", self.folder / "report.json"
        subprocess.run([sys.executable, str(ROOT / "bench/chain_graph.py"), "2000", str(graph)], check=True)
        subprocess.run([os.environ["MILLRACE_PROGRAM"], "run", f"--graph={graph}", "--fetches=result:0", "--synthetic_feeds", "--fuse=on",
                        "--strategy=baseline", f"--report_out={report}"], check=True, capture_output=True)
        self.assertEqual(json.loads(report.read_text())["runs"][0]["devices"][0]["nodes"], 2000)

    def test_what_it_ran_on_is_written_down(self):
        (self.folder / "opens.log").write_text("I cuda_services.cc:36] cuda:0: to cuDNN 91900 it is {}\n")
        subprocess.run([sys.executable, str(ROOT / "bench/gpu_about.py"), str(self.folder), "emulated"], check=True,
                       env={**os.environ, "MILLRACE_GPU_COMMIT": "abc"})
        about = json.loads((self.folder / "about.json").read_text())
        self.assertEqual(list(about), ["device", "driver", "CUDA", "cuDNN", "commit", "machine", "date"])
        self.assertEqual((about["cuDNN"], about["commit"]), ("91900", "abc"))
        self.assertIn("cores of", about["machine"])


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
