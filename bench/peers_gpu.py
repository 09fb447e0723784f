"""PyTorch on the same GPU: eager, torch.compile, offloaded activations, activation checkpointing; and Millrace beside it.

Prints a table of step seconds and peak memory, and writes it with --json after every row. A variant that cannot run says
why; each runs in a process of its own, so that none takes the others along. With --millrace=PROGRAM every row that has a
peak is followed by Millrace's step in a budget of that peak: the same model by `millrace model`, without dropout, in the
same precision. Inputs come from page-locked host memory in every step, as Millrace's feeds come from the host's. Also
measured: plain copies of page-locked memory, which do not need PyTorch.
"""
import argparse
import concurrent.futures
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

import checked

MODELS = ["resnet50", "lstm", "unet3d", "moe_transformer"]
TOO_LONG = "took longer than"  # how the error begins of what was cut short
VARIANTS = ["eager", "offload", "checkpoint", "compile"]  # what takes longest to start comes last
# Arguments of `millrace model`: as on a GPU, and small (--cpu).
GENERATED = {
    "resnet50": ("resnet --depth=50 --batch=64 --image_size=224", "resnet --depth=50 --batch=2 --image_size=64"),
    "lstm": ("lstm --batch=64 --hidden=1000 --layers=1 --steps_unrolled=100 --vocab=1000 --dropout=0",
             "lstm --batch=4 --hidden=32 --layers=1 --steps_unrolled=8 --vocab=50 --dropout=0"),
    "unet3d": ("unet3d --batch=1", "unet3d --batch=1 --image_size=16 --channels=4 --levels=2"),
    "moe_transformer": ("moe_transformer --batch=8 --dropout=0",
                        "moe_transformer --batch=2 --hidden=32 --heads=2 --layers=1 --steps_unrolled=8 --vocab=50 --experts=4"
                        " --dropout=0"),
}


def resnet50(torch, batch, size, channels_last):
    """The network of He et al. 2015 with the stride in the 3x3 convolutions, as torchvision has it."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            outputs = 4 * width
            self.body = nn.Sequential(
                nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
            self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return torch.relu(self.body(x) + self.shortcut(x))

    layers = [nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                            nn.MaxPool2d(3, 2, 1))]
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Block(inputs, 64 << stage, 2 if stage > 0 and block == 0 else 1))
            inputs = 256 << stage
    layers += [nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))]
    model, images = nn.Sequential(*layers), torch.randn(batch, 3, size, size)
    if channels_last:
        model, images = model.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
    return model, images, torch.randint(0, 1000, (batch,))


def lstm(torch, batch=64, hidden=1000, steps=100, vocab=1000):
    nn = torch.nn

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(vocab, hidden)
            self.cell = nn.LSTM(hidden, hidden, num_layers=1, batch_first=True)
            self.head = nn.Linear(hidden, vocab)

        def forward(self, tokens):
            return self.head(self.cell(self.table(tokens))[0]).flatten(0, 1)
    return Lstm(), torch.randint(0, vocab, (batch, steps)), torch.randint(0, vocab, (batch * steps,))


def unet3d(torch, channels_last, size=144, channels=32, levels=4):
    nn = torch.nn

    def convs(inputs, first, second):
        return nn.Sequential(nn.Conv3d(inputs, first, 3, padding=1), nn.InstanceNorm3d(first), nn.ReLU(inplace=True),
                             nn.Conv3d(first, second, 3, padding=1), nn.InstanceNorm3d(second), nn.ReLU(inplace=True))

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up, self.wider = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
            inputs = 3
            for level in range(levels):
                self.down.append(convs(inputs, channels << level, 2 * channels << level))
                inputs = 2 * channels << level
            for level in reversed(range(levels - 1)):
                filters = 2 * channels << level
                self.wider.append(nn.ConvTranspose3d(inputs, inputs, 2, 2, bias=False))
                self.up.append(convs(inputs + filters, filters, filters))
                inputs = filters
            self.head = nn.Conv3d(inputs, 3, 1)

        def forward(self, x):
            skips = []
            for level, block in enumerate(self.down):
                x = block(nn.functional.max_pool3d(x, 2) if level else x)
                skips.append(x)
            for wider, block, skip in zip(self.wider, self.up, reversed(skips[:-1])):
                x = block(torch.cat([wider(x), skip], 1))
            return self.head(x)
    model, volume = Unet(), torch.randn(1, 3, size, size, size)
    if channels_last:
        model, volume = model.to(memory_format=torch.channels_last_3d), volume.contiguous(memory_format=torch.channels_last_3d)
    return model, volume, torch.randint(0, 3, (1, size, size, size))


def moe_transformer(torch, batch=8, steps=256, width=1024, heads=16, layers=6, experts=12, vocab=32000):
    nn, functional = torch.nn, torch.nn.functional
    tokens_each = batch * steps
    capacity = min(tokens_each, int(2 * tokens_each / experts * 1.25) + 1)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            q, k, v = (t.view(batch, steps, heads, width // heads).transpose(1, 2)
                       for t in self.qkv(self.norm(x)).view(batch, steps, 3 * width).chunk(3, -1))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(y.transpose(1, 2).reshape(-1, width))

    class Mixture(nn.Module):
        """Top-2 routing with a capacity per expert; tokens beyond it pass by."""

        def __init__(self):
            super().__init__()
            self.norm, self.router = nn.LayerNorm(width), nn.Linear(width, experts, bias=False)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)) for _ in range(experts))

        def forward(self, x):
            y = self.norm(x)
            probabilities = self.router(y).softmax(-1)
            top, choice = probabilities.topk(2, -1)
            gate = top / top.sum(-1, keepdim=True)
            one_hot = functional.one_hot(choice.t().reshape(-1), experts)  # first choices before second ones
            place = ((one_hot.cumsum(0) - one_hot) * one_hot).sum(-1).view(2, -1).t()
            inside = place < capacity
            slot = torch.where(inside, choice * capacity + place, experts * capacity)
            buffer = y.new_zeros(experts * capacity + 1, width).index_add(0, slot.reshape(-1), y.repeat_interleave(2, 0))
            parts = buffer[:-1].view(experts, capacity, width)
            done = torch.cat([expert(part) for expert, part in zip(self.experts, parts)] + [y.new_zeros(1, width)])
            return x + (done[slot] * (gate * inside)[..., None]).sum(1)

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.places = nn.Embedding(vocab, width), nn.Embedding(steps, width)
            self.blocks = nn.ModuleList(m for _ in range(layers) for m in (Attention(), Mixture()))
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens):
            x = (self.table(tokens) + self.places.weight).view(-1, width)
            for block in self.blocks:
                x = block(x)
            return self.norm(x) @ self.table.weight.t()
    return Transformer(), torch.randint(0, vocab, (batch, steps)), torch.randint(0, vocab, (tokens_each,))


def build(torch, name, small, channels_last):
    """(module, inputs, labels) of a model."""
    torch.manual_seed(0)
    if name == "resnet50":
        return resnet50(torch, *((2, 64) if small else (64, 224)), channels_last)
    if name == "lstm":
        return lstm(torch, 4, 32, 8, 50) if small else lstm(torch)
    if name == "unet3d":
        return unet3d(torch, channels_last, size=16, channels=4, levels=2) if small else unet3d(torch, channels_last)
    if name == "moe_transformer":
        return moe_transformer(torch, 2, 8, 32, 2, 1, 4, 50) if small else moe_transformer(torch)
    raise ValueError(name)


def checkpointed(torch, model):
    """Recomputes every block in the backward pass."""
    from torch.utils.checkpoint import checkpoint
    blocks = [b for m in model.children() for b in (m if isinstance(m, torch.nn.ModuleList) else [m])]
    for block in blocks:
        if isinstance(block, (torch.nn.LSTM, torch.nn.Embedding)) or not any(True for _ in block.parameters()):
            continue
        block.forward = lambda *a, f=block.forward: checkpoint(f, *a, use_reentrant=False)
    return model


def layouts(name, variant):
    """Whether channels are last, of each layout that a row is measured in: eager convolutions in both, so that goals are set
    against the better one; what takes longer to start in what is usual for the model."""
    if name in ("resnet50", "unet3d") and variant == "eager":
        return [False, True]
    return [name == "resnet50"]


def measure(torch, name, variant, device, steps, small):
    """Median seconds of a step and peak bytes, in the fastest layout."""
    return min(measure_in(torch, name, variant, device, steps, small, channels_last) for channels_last in layouts(name, variant))


def measure_in(torch, name, variant, device, steps, small, channels_last):
    model, inputs, labels = build(torch, name, small, channels_last)
    model = model.to(device)
    if device == "cuda":
        inputs, labels = inputs.pin_memory(), labels.pin_memory()
    optimizer = (torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4) if name == "resnet50"
                 else torch.optim.SGD(model.parameters(), lr=0.01) if name == "lstm"
                 else torch.optim.Adam(model.parameters(), lr=1e-4))
    if variant == "checkpoint":
        model = checkpointed(torch, model)
    run = torch.compile(model) if variant == "compile" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        x, wanted = inputs.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        if variant == "offload":
            with torch.autograd.graph.save_on_cpu(pin_memory=device == "cuda"):
                loss = torch.nn.functional.cross_entropy(run(x), wanted)
        else:
            loss = torch.nn.functional.cross_entropy(run(x), wanted)
        loss.backward()
        optimizer.step()

    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(3):
        step()
    synchronize()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        synchronize()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2], torch.cuda.max_memory_allocated() if device == "cuda" else 0


def measure_copies(bytes_each=1 << 28):
    """Bytes a second of page-locked memory, (to the host, to the device), by the driver alone: PyTorch may not be there."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        status = getattr(cuda, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} returned {status}")

    device, context, stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    host, there, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(bytes_each)
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuStreamCreate", ctypes.byref(stream), 1)
    call("cuMemHostAlloc", ctypes.byref(host), size, 0)
    call("cuMemAlloc_v2", ctypes.byref(there), size)
    rates = []
    for copy, to, source in (("cuMemcpyDtoHAsync_v2", host, there), ("cuMemcpyHtoDAsync_v2", there, host)):
        best = 0.0
        for _ in range(6):
            start = time.perf_counter()
            call(copy, to, source, size, stream)
            call("cuStreamSynchronize", stream)
            best = max(best, bytes_each / (time.perf_counter() - start))
        rates.append(best)
    return rates


def run_one(arguments):
    """In the child: one row as JSON on the last line."""
    model, variant = arguments.one.split(":")
    row = {"model": model, "variant": variant}
    if model == "copy":
        try:
            row["to_host_bytes_per_second"], row["to_device_bytes_per_second"] = measure_copies()
        except (OSError, RuntimeError, AttributeError) as error:
            row["error"] = str(error)[:200]
        print(json.dumps(row))
        return
    import torch
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    torch.backends.cudnn.allow_tf32 = arguments.tf32
    device = "cpu" if arguments.cpu else "cuda"
    try:
        row["step_seconds"], row["peak_bytes"] = measure(torch, model, variant, device, arguments.steps, arguments.cpu)
    except Exception as error:  # a peer that cannot run is a row, not the end of the table
        row["error"] = f"{type(error).__name__}: {error}"[:200]
    print(json.dumps(row))


def warm(arguments):
    """Compiles all models at once, on as many cores as there are, and measures nothing: torch.compile finds what it needs in its caches
    (TORCHINDUCTOR_CACHE_DIR, or the folder of temporary files) the next time."""
    started, models = time.monotonic(), arguments.models.split(",")
    with concurrent.futures.ThreadPoolExecutor(len(models)) as pool:
        rows = pool.map(lambda model: run_child(model, "compile", arguments, steps=1), models)
        for model, row in zip(models, rows):
            print(f"{model:16} {row.get('error') or f'compiled after {time.monotonic() - started:.0f} s'}", flush=True)


def run_child(model, variant, arguments, steps=None):
    command = [sys.executable, __file__, f"--one={model}:{variant}", f"--steps={steps or arguments.steps}"]
    command += ["--tf32"] * arguments.tf32 + ["--cpu"] * arguments.cpu
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout, check=False)
        return json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"model": model, "variant": variant, "error": f"{TOO_LONG} {arguments.timeout} s"}
    except (IndexError, ValueError):
        return {"model": model, "variant": variant, "error": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}


def run_millrace(row, arguments):
    """Adds Millrace's step, and the peak it was planned for, in the memory that the row's variant took."""
    generated = GENERATED[row["model"]][1 if arguments.cpu else 0]
    with tempfile.TemporaryDirectory() as folder:
        graph, report = os.path.join(folder, "model.pb"), os.path.join(folder, "report.json")
        budget = f"--device_memory={row['peak_bytes']}" if row["peak_bytes"] else "--device_memory=80%"
        command = [arguments.millrace, "run", f"--graph={graph}", "--fetches=loss:0", "--targets=train", "--init_targets=init",
                   "--synthetic_feeds", "--steps=40", "--replan=wait", f"--report_out={report}",
                   f"--device={'cpu' if arguments.cpu else 'cuda'}", "--strategy=planned", budget]
        command += ["--tf32"] * arguments.tf32
        try:
            subprocess.run([arguments.millrace, "model", *generated.split(), f"--out={graph}"], capture_output=True, check=True,
                           timeout=arguments.timeout)
            done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or ['nothing said'])[-1][:200]}")
            with open(report) as file:
                run = json.load(file)["runs"][0]
            seconds = sorted(float(s) for s in run["step_seconds"][-5:])
            row["millrace_seconds"] = seconds[len(seconds) // 2]
            row["millrace_peak_bytes"] = int(run["peak_device_bytes"])
        except subprocess.TimeoutExpired:
            row["millrace_error"] = f"{TOO_LONG} {arguments.timeout} s"
        except subprocess.CalledProcessError as error:
            row["millrace_error"] = f"exit status {error.returncode}: {(error.stderr or b'').decode(errors='replace').strip()[-200:]}"
        except RuntimeError as error:
            row["millrace_error"] = str(error)
        except (OSError, KeyError, ValueError, IndexError, TypeError) as error:
            row["millrace_error"] = f"no report: {type(error).__name__}"


def kept_rows(path, program=""):
    """Of a former run: what it has measured is not measured again, what failed beside it neither, unless `program` is newer."""
    try:
        with open(path) as file:
            rows = [row for row in json.load(file) if "error" not in row]
        newer = bool(program) and os.path.getmtime(program) > os.path.getmtime(path)
    except (OSError, ValueError):
        return []
    for row in rows:
        if newer or row.get("millrace_error", "").startswith(TOO_LONG):
            row.pop("millrace_error", None)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=checked.written, default="")
    parser.add_argument("--models", type=checked.several(checked.one_of(MODELS)), default=",".join(MODELS))
    parser.add_argument("--variants", type=checked.several(checked.one_of(VARIANTS)), default=",".join(VARIANTS))
    parser.add_argument("--steps", type=checked.number(int, 1), default=10)
    parser.add_argument("--timeout", type=checked.number(int, 1), default=60, help="seconds of one variant")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="without a GPU, small: tries the script")
    parser.add_argument("--millrace", type=checked.program, help="the program to run beside the peers, at their peaks")
    parser.add_argument("--warm", action="store_true", help="compile the models for a later run, and measure nothing")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # Before PyTorch 2.6 these caches are not on by themselves.
    for cache in ("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"):
        os.environ.setdefault(cache, "1")
    if arguments.one:
        return run_one(arguments)
    rows = kept_rows(arguments.json, arguments.millrace)
    has_torch = importlib.util.find_spec("torch") is not None
    if not has_torch:
        print("PyTorch is not installed")
    if arguments.warm:
        return warm(arguments) if has_torch else 2
    print(f"{'model':16} {'variant':12} {'step ms':>10} {'peak MiB':>10} {'Millrace ms':>12} {'peak MiB':>10}")
    def save():
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(rows, file, indent=1)

    def run_peer(model, variant):
        if any((row["model"], row["variant"]) == (model, variant) for row in rows):
            return
        row = run_child(model, variant, arguments)
        rows.append(row)
        if "step_seconds" in row:
            print(f"{model:16} {variant:12} {row['step_seconds'] * 1e3:10.2f} {row['peak_bytes'] / 2**20:10.0f}", flush=True)
        else:
            print(f"{model:16} {variant:12} {row.get('error') or row}", flush=True)
        save()

    def run_beside(row):
        run_millrace(row, arguments)
        result = (f"{row['millrace_seconds'] * 1e3:12.2f} {row['millrace_peak_bytes'] / 2**20:10.0f}"
                  if "millrace_seconds" in row else f" {row['millrace_error']}")
        print(f"{row['model']:16} {row['variant']:12} {'':10} {'':10} {result}", flush=True)
        save()

    # Eager of all models first: that is what goals are set against. What is compiled takes longest to start.
    if not arguments.cpu and not arguments.tf32:
        run_peer("copy", "pinned")
    chosen = arguments.variants.split(",") if has_torch else []
    for peers, beside in ((("eager", "offload", "checkpoint"), ("offload", "checkpoint")), (("compile",), ("compile", "eager"))):
        for variant in [v for v in peers if v in chosen]:
            for model in arguments.models.split(","):
                run_peer(model, variant)
        for row in rows if arguments.millrace else []:
            if row["variant"] in beside and "step_seconds" in row and not {"millrace_seconds", "millrace_error"} & row.keys():
                run_beside(row)
    return 0 if has_torch else 2


if __name__ == "__main__":
    sys.exit(main())
