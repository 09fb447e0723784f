"""PyTorch on the same GPU: eager, torch.compile, offloaded activations, activation checkpointing.

Prints a table of step seconds and peak memory, and writes it with --json. A variant that cannot run says why. ResNet-50
is torchvision's; the LSTM language model is that of `millrace model lstm --batch=64 --hidden=1000 --layers=1
--steps_unrolled=100 --vocab=1000 --dropout=0`, which bench/gpu_check.sh runs beside it.
"""
import argparse
import json
import sys
import time


def build(torch, name):
    """(module, inputs, labels) of a model, on the GPU."""
    nn = torch.nn
    torch.manual_seed(0)
    device = "cuda"
    if name == "resnet50":
        import torchvision
        model = torchvision.models.resnet50().to(device, memory_format=torch.channels_last)
        images = torch.randn(64, 3, 224, 224, device=device).contiguous(memory_format=torch.channels_last)
        return model, images, torch.randint(0, 1000, (64,), device=device)
    if name == "lstm":
        class Lstm(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(1000, 1000)
                self.cell = nn.LSTM(1000, 1000, num_layers=1, batch_first=True)
                self.head = nn.Linear(1000, 1000)

            def forward(self, tokens):
                return self.head(self.cell(self.table(tokens))[0]).flatten(0, 1)
        tokens = torch.randint(0, 1000, (64, 100), device=device)
        return Lstm().to(device), tokens, torch.randint(0, 1000, (6400,), device=device)
    raise ValueError(name)


def blocks_of(torch, model):
    return [m for m in model.children() if sum(p.numel() for p in m.parameters()) > 0]


def checkpointed(torch, model):
    """Recomputes every top-level block in the backward pass."""
    from torch.utils.checkpoint import checkpoint
    for block in blocks_of(torch, model):
        forward = block.forward
        if isinstance(block, torch.nn.LSTM):
            continue
        block.forward = lambda *a, f=forward: checkpoint(f, *a, use_reentrant=False)
    return model


def measure(torch, name, variant, steps=12):
    model, inputs, labels = build(torch, name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if variant == "checkpoint":
        model = checkpointed(torch, model)
    run = torch.compile(model) if variant == "compile" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        if variant == "offload":
            with torch.autograd.graph.save_on_cpu(pin_memory=True):
                loss = torch.nn.functional.cross_entropy(run(inputs), labels)
        else:
            loss = torch.nn.functional.cross_entropy(run(inputs), labels)
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[len(seconds) // 2], torch.cuda.max_memory_allocated()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", default="")
    parser.add_argument("--models", default="resnet50,lstm")
    parser.add_argument("--variants", default="eager,compile,offload,checkpoint")
    parser.add_argument("--tf32", action="store_true")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed")
        return 2
    if not torch.cuda.is_available():
        print("no device")
        return 2
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    torch.backends.cudnn.allow_tf32 = arguments.tf32
    rows = []
    print(f"{'model':12} {'variant':12} {'step ms':>10} {'peak MiB':>10}")
    for model in arguments.models.split(","):
        for variant in arguments.variants.split(","):
            row = {"model": model, "variant": variant}
            try:
                row["step_seconds"], row["peak_bytes"] = measure(torch, model, variant)
                print(f"{model:12} {variant:12} {row['step_seconds'] * 1e3:10.2f} {row['peak_bytes'] / 2**20:10.0f}", flush=True)
            except Exception as error:  # a peer that cannot run is a row, not the end of the table
                row["error"] = f"{type(error).__name__}: {error}"[:200]
                print(f"{model:12} {variant:12} {row['error']}", flush=True)
                torch.cuda.empty_cache()
            rows.append(row)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
