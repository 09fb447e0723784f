#!/usr/bin/env python3
"""A model on several devices: a Recv per use against a shared one, under several strategies and budgets.

  devices.py BINARY MACHINE.pbtxt [--devices=4] [--model="moe_transformer --experts=12 ..."] [--partition_sizes=20,100]
             [--budgets=none,60%] [--share=off,on]

Generates the model, plans it for the machine under every strategy and prints a markdown table: counts and bytes of the
copies between devices and in all, nodes computed again, the largest peak of a device, the simulated step and how far it is above
its lower bound. Nothing runs, so the figures are exact.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import checked

MODEL = ("moe_transformer --experts=12 --layers=4 --hidden=256 --heads=4 --steps_unrolled=256 --vocab=2000 --batch=32 "
         "--optimizer=sgd")


def plan(binary, graph, machine, flags, folder):
    report = folder / "report.json"
    command = [binary, "plan", f"--graph={graph}", "--fetches=loss:0", "--targets=train", "--synthetic_feeds",
               f"--machine={machine}", f"--report_out={report}", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 3:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(report.read_text())["runs"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=checked.program)
    parser.add_argument("machine", type=checked.readable)
    parser.add_argument("--devices", type=checked.number(int, 1), default=4)
    parser.add_argument("--partition_sizes", type=checked.several(checked.number(int, 0)), default="20,100")
    parser.add_argument("--model", default=MODEL, help="name and flags")
    parser.add_argument("--budgets", default="none,60%")
    parser.add_argument("--share", type=checked.several(checked.one_of(["off", "on"])), default="off,on", help="a Recv per use, a shared one")
    options = parser.parse_args()
    mib = 1 << 20
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        graph = folder / "model.pb"
        checked.run([options.binary, "model", *options.model.split(), f"--devices={options.devices}", f"--out={graph}"])
        print("| strategy | budget | Recv | sends | recvs | swaps out/in | again | to host | to device | largest peak | all peaks | step | above bound |")
        print("|" + "---|" * 13)
        variants = [("baseline", [])]
        for size in options.partition_sizes.split(","):
            variants.append((f"tensorflowmem, partitions of {size}", ["--strategy=tensorflowmem", f"--partition_size={size}"]))
        variants.append(("planned", ["--strategy=planned"]))
        for label, flags in variants:
            for budget in options.budgets.split(","):
                if label == "baseline" and budget != "none":
                    continue
                # The machine's memory is the budget when none is given.
                limit = [] if budget == "none" else [f"--device_memory={budget}"]
                for share in (text == "on" for text in options.share.split(",")):
                    if label == "planned" and not share:
                        continue  # it always shares
                    more = ["--share_recv"] if share else []
                    run = plan(options.binary, graph, options.machine,
                               [f"--devices={options.devices}", *(flags or ["--strategy=baseline"]), *limit, *more], folder)
                    row = [label, budget, "shared" if share else "per use"]
                    if run is None:
                        print("| " + " | ".join(row + ["does not fit"] + ["-"] * 9) + " |")
                        continue
                    peaks = [device["predicted_peak_bytes"] for device in run["devices"]]
                    row += [str(run["sends"]), str(run["recvs"]), f"{run['swap_outs']}/{run['swap_ins']}", str(run["recomputed_nodes"]),
                            f"{run['bytes_to_host'] / mib:.1f} MiB", f"{run['bytes_to_device'] / mib:.1f} MiB",
                            f"{max(peaks) / mib:.1f} MiB", f"{sum(peaks) / mib:.1f} MiB",
                            f"{run['predicted_step_seconds'] * 1e3:.1f} ms",
                            f"{100 * (run['predicted_step_seconds'] / run['lower_bound_seconds'] - 1):.1f} %"]
                    print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
