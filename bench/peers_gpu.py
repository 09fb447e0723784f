"""PyTorch on the same GPU: eager, torch.compile, offloaded activations, activation checkpointing.

Prints a table of step seconds and peak memory, and writes it with --json. A variant that cannot run says why. ResNet-50
is torchvision's where that is installed; the LSTM, the 3D U-Net and the transformer are written here with the sizes of
`millrace model`'s defaults.
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
                self.cell = nn.LSTM(1000, 1000, num_layers=1, batch_first=True)
                self.head = nn.Linear(1000, 1000)

            def forward(self, x):
                return self.head(self.cell(x)[0][:, -1])
        return Lstm().to(device), torch.randn(64, 100, 1000, device=device), torch.randint(0, 1000, (64,), device=device)
    if name == "unet3d":
        class Unet(nn.Module):
            def __init__(self, base=16):
                super().__init__()
                block = lambda i, o: nn.Sequential(nn.Conv3d(i, o, 3, padding=1), nn.ReLU(), nn.Conv3d(o, o, 3, padding=1), nn.ReLU())
                self.down = nn.ModuleList([block(1, base), block(base, 2 * base), block(2 * base, 4 * base)])
                self.up = nn.ModuleList([block(6 * base, 2 * base), block(3 * base, base)])
                self.head = nn.Conv3d(base, 2, 1)

            def forward(self, x):
                a = self.down[0](x)
                b = self.down[1](nn.functional.max_pool3d(a, 2))
                c = self.down[2](nn.functional.max_pool3d(b, 2))
                b = self.up[0](torch.cat([b, nn.functional.interpolate(c, scale_factor=2)], 1))
                return self.head(self.up[1](torch.cat([a, nn.functional.interpolate(b, scale_factor=2)], 1)))
        return Unet().to(device), torch.randn(1, 1, 128, 128, 128, device=device), \
            torch.randint(0, 2, (1, 128, 128, 128), device=device)
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
    parser.add_argument("--models", default="resnet50,lstm,unet3d")
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
