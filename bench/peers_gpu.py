"""PyTorch on the same GPU: eager, torch.compile, offloaded activations, activation checkpointing.

Prints a table of step seconds and peak memory, and writes it with --json after every row. A variant that cannot run says
why; each runs in a process of its own, so that none takes the others along. The models are those that
bench/gpu_check.sh generates: `millrace model resnet --depth=50 --batch=64`, `lstm --batch=64 --hidden=1000 --layers=1
--steps_unrolled=100 --vocab=1000`, `unet3d --batch=1` and `moe_transformer --batch=8`, without dropout, in the same
precision. Also measured: plain copies of page-locked memory.
"""
import argparse
import json
import subprocess
import sys
import time

MODELS = ["resnet50", "lstm", "unet3d", "moe_transformer"]
VARIANTS = ["eager", "compile", "offload", "checkpoint"]


def resnet50(torch, channels_last):
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
    model, images = nn.Sequential(*layers), torch.randn(64, 3, 224, 224)
    if channels_last:
        model, images = model.to(memory_format=torch.channels_last), images.contiguous(memory_format=torch.channels_last)
    return model, images, torch.randint(0, 1000, (64,))


def lstm(torch):
    nn = torch.nn

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(1000, 1000)
            self.cell = nn.LSTM(1000, 1000, num_layers=1, batch_first=True)
            self.head = nn.Linear(1000, 1000)

        def forward(self, tokens):
            return self.head(self.cell(self.table(tokens))[0]).flatten(0, 1)
    return Lstm(), torch.randint(0, 1000, (64, 100)), torch.randint(0, 1000, (6400,))


def unet3d(torch, size=144, channels=32, levels=4):
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
    return Unet(), torch.randn(1, 3, size, size, size), torch.randint(0, 3, (1, size, size, size))


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


def build(torch, name, small):
    """(module, inputs, labels) of a model."""
    torch.manual_seed(0)
    if name == "resnet50":
        return resnet50(torch, channels_last=True)
    if name == "lstm":
        return lstm(torch)
    if name == "unet3d":
        return unet3d(torch, size=16, channels=4, levels=2) if small else unet3d(torch)
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


def measure(torch, name, variant, device, steps, small):
    model, inputs, labels = build(torch, name, small)
    model, inputs, labels = model.to(device), inputs.to(device), labels.to(device)
    momentum = name in ("resnet50", "lstm")
    optimizer = (torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9) if momentum
                 else torch.optim.Adam(model.parameters(), lr=1e-4))
    if variant == "checkpoint":
        model = checkpointed(torch, model)
    run = torch.compile(model) if variant == "compile" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        if variant == "offload":
            with torch.autograd.graph.save_on_cpu(pin_memory=device == "cuda"):
                loss = torch.nn.functional.cross_entropy(run(inputs), labels)
        else:
            loss = torch.nn.functional.cross_entropy(run(inputs), labels)
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


def measure_copies(torch, bytes_each=1 << 28):
    """Bytes a second of page-locked memory, (to the host, to the device)."""
    host = torch.empty(bytes_each, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(bytes_each, dtype=torch.uint8, device="cuda")
    rates = []
    for to, source in ((host, there), (there, host)):
        best = 0.0
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            to.copy_(source, non_blocking=True)
            torch.cuda.synchronize()
            best = max(best, bytes_each / (time.perf_counter() - start))
        rates.append(best)
    return rates


def run_one(arguments):
    """In the child: one row as JSON on the last line."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    torch.backends.cudnn.allow_tf32 = arguments.tf32
    device = "cpu" if arguments.cpu else "cuda"
    model, variant = arguments.one.split(":")
    row = {"model": model, "variant": variant}
    try:
        if model == "copy":
            row["to_host_bytes_per_second"], row["to_device_bytes_per_second"] = measure_copies(torch)
        else:
            row["step_seconds"], row["peak_bytes"] = measure(torch, model, variant, device, arguments.steps, arguments.cpu)
    except Exception as error:  # a peer that cannot run is a row, not the end of the table
        row["error"] = f"{type(error).__name__}: {error}"[:200]
    print(json.dumps(row))


def run_child(model, variant, arguments):
    command = [sys.executable, __file__, f"--one={model}:{variant}", f"--steps={arguments.steps}"]
    command += ["--tf32"] * arguments.tf32 + ["--cpu"] * arguments.cpu
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout, check=False)
        return json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"model": model, "variant": variant, "error": f"took longer than {arguments.timeout} s"}
    except (IndexError, ValueError):
        return {"model": model, "variant": variant, "error": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", default="")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--timeout", type=int, default=60, help="seconds of one variant")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="without a GPU, small: tries the script")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return run_one(arguments)
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return 2
    if not arguments.cpu and not torch.cuda.is_available():
        print("no device")
        return 2
    rows = []
    print(f"{'model':16} {'variant':12} {'step ms':>10} {'peak MiB':>10}")
    # Eager of all models first: that is what goals are set against.
    jobs = [] if arguments.cpu else [("copy", "pinned")]
    jobs += [(m, v) for v in arguments.variants.split(",") for m in arguments.models.split(",")]
    for model, variant in jobs:
        row = run_child(model, variant, arguments)
        rows.append(row)
        if "step_seconds" in row:
            print(f"{model:16} {variant:12} {row['step_seconds'] * 1e3:10.2f} {row['peak_bytes'] / 2**20:10.0f}", flush=True)
        else:
            print(f"{model:16} {variant:12} {row.get('error') or row}", flush=True)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
