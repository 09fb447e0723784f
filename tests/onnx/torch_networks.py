"""Networks written by hand in PyTorch, exported to ONNX: outputs and gradients of parameters beside PyTorch's.

    python tests/onnx/torch_networks.py build/bin/millrace [--dynamo] [NETWORK ...]

Prints the table of torch_networks.md. The gradients are those of sum(output * random numbers). A difference is relative to the
largest element; of a bias before a normalisation, whose gradient is 0, to 1e-3. The exit status is 1 when one is above TOLERANCE.
With --dynamo by the exporter that follows torch.export, which writes batch normalisation for inference and does not export
two of the networks. Needs torch, onnx and for --dynamo onnxscript (made with torch 2.15, opset 20).
"""

import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

TOLERANCE = 1e-4
LEAST = 1e-3
NORMALISED = {"bn1d", "conv3d"}  # with biases before a normalisation: what is left of 0 is rounding's


class Net(nn.Module):
    """forward(net, x) over named parts."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.body = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.body(self, x)


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer, nn.LazyLinear(4)

    def forward(self, x):
        y, state = self.layer(x)
        state = state[0] if isinstance(state, tuple) else state
        return torch.cat([self.head(y).flatten(1), state.transpose(0, 1).flatten(1)], 1)


def weight(*shape):
    return nn.Parameter(torch.randn(*shape) * 0.3)


def conv(*arguments, **options):
    return nn.Conv2d(*arguments, **options)


def attended(net, x):
    mask = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]).bool()
    return net.attention(x, x, x, key_padding_mask=mask)[0]


def mobile(net, x):
    y = net.body_(x)
    return net.head((y * net.squeeze(y)).mean((2, 3)))


def convnext(net, x):
    y = net.stem(x)
    block = net.wide(net.norm(net.depthwise(y).permute(0, 2, 3, 1))) * net.scale
    return net.head((y + block.permute(0, 3, 1, 2)).mean((-2, -1)))


def inception(net, x):
    c = net.c(x)
    branches = [net.a(x), F.avg_pool2d(net.b(x), 3, 1, 1, count_include_pad=False), F.max_pool2d(c, 3, 1, 1),
                F.avg_pool2d(F.pad(c, (1, 1, 1, 1)), 3, 1)]
    return net.head(torch.cat(branches, 1).flatten(1))


def wavenet(net, x):
    total = 0
    for layer, dilation in zip(net.layers, (1, 2, 4)):
        y = layer(F.pad(x.transpose(1, 2), (dilation, 0)))
        total = total + torch.tanh(y[:, :4]) * torch.sigmoid(y[:, 4:])
    return net.head(total)


def transformer(net, x):
    later = torch.triu(torch.full((4, 4), float("-inf")), 1)
    return net.head(net.body_(x, x[:, :4], tgt_mask=later))


def activations(net, x):
    y = x @ net.w
    plain = [F.gelu, F.silu, F.mish, F.elu, F.selu, F.softplus, F.hardtanh, F.softsign, F.logsigmoid, F.hardshrink, F.softshrink,
             F.glu, F.hardswish, F.relu6]
    return torch.cat([f(y) for f in plain] + [F.gelu(y, approximate="tanh"), F.celu(y, 1.3), F.leaky_relu(y, 0.2),
                                              net.prelu(y.transpose(1, 2)).transpose(1, 2)], -1)


def moves(net, x):
    y = x @ net.w
    picked = torch.tensor([[[0, 2], [1, 1], [3, 0], [2, 2], [0, 0]]]).expand(2, -1, -1)
    return torch.cat([torch.gather(y, 2, picked), torch.index_select(y, 2, torch.tensor([3, 1])), torch.cumsum(y, 1),
                      torch.where(y > 0, y, -2 * y), y.masked_fill(torch.eye(5, 4).bool(), 0.5), torch.flip(y, [1, 2]),
                      y.clamp(-0.5, 0.7), torch.stack(y.unbind(-1), -1)[..., ::2], torch.roll(y, (2, -1), (1, 2))], -1)


def reductions(net, x):
    y = x @ net.w
    return torch.stack([y.amax(1), y.amin(1), y.norm(dim=1), torch.logsumexp(y, 1), y.std(1), y.var(1, unbiased=False), y.prod(1),
                        y.abs().sum(1), y.mean(1), y.topk(2, 1)[0].sum(1), y.max(1)[0]], -1)


def functions(net, x):
    y = (x @ net.w).abs() + 0.2
    plain = [torch.sqrt, torch.rsqrt, torch.log, torch.exp, torch.erf, torch.sin, torch.cos, torch.atan, torch.reciprocal, torch.log1p]
    return torch.cat([f(y) for f in plain] + [y**3, y**0.7, 2.0**y, torch.remainder(y, 0.7), F.normalize(y, dim=-1),
                                              F.cosine_similarity(y, y.flip(1), dim=-1).unsqueeze(-1), torch.cdist(y, y + 1),
                                              torch.floor(y) * y, torch.sign(y - 0.6) * y], -1)


def warped(net, x):
    grid = F.affine_grid(net.place(x.mean((2, 3))).view(-1, 2, 3) + torch.eye(2, 3), (2, 2, 9, 9), align_corners=False)
    return F.grid_sample(net.conv(x), grid, align_corners=False)


def resized(mode, **options):
    return Net(lambda net, x: F.interpolate(net.conv(x), mode=mode, **options), conv=conv(3, 2, 3, padding=1))


def networks():
    """Yields name, module and input."""
    image, sequence = torch.randn(2, 3, 16, 16), torch.randn(2, 5, 12)
    volume, words = torch.randn(1, 2, 6, 6, 6), torch.randint(0, 20, (2, 7))
    sequential = nn.Sequential
    yield "mobilenet", Net(mobile, body_=sequential(conv(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
                                                    conv(8, 8, 3, 1, 1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), conv(8, 12, 1)),
                           squeeze=sequential(nn.AdaptiveAvgPool2d(1), conv(12, 4, 1), nn.ReLU(), conv(4, 12, 1), nn.Hardsigmoid()),
                           head=nn.Linear(12, 4)), image
    yield "espcn", sequential(conv(3, 8, 5, padding=2), nn.Tanh(), conv(8, 12, 3, padding=1), nn.PixelShuffle(2), nn.PixelUnshuffle(2)), image
    yield "activations", Net(activations, w=weight(12, 6), prelu=nn.PReLU(6)), sequence
    yield "deconvolution", sequential(nn.ConvTranspose2d(3, 6, 3, 2, 1, output_padding=1, groups=3), nn.GroupNorm(2, 6), nn.ReLU(),
                                      nn.ConvTranspose2d(6, 4, 3, 1, 2, dilation=2), conv(4, 4, 3, padding=2, dilation=2)), image
    yield "convnext", Net(convnext, stem=conv(3, 8, 4, 4), depthwise=conv(8, 8, 7, padding=3, groups=8), norm=nn.LayerNorm(8),
                          wide=sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)), scale=weight(8), head=nn.Linear(8, 4)), image
    yield "inception", Net(inception, a=conv(3, 4, (1, 7), padding=(0, 3)), b=conv(3, 4, 1), c=conv(3, 4, (3, 1), padding=(1, 0)),
                           head=nn.LazyLinear(3)), image
    yield "ceil_pools", Net(lambda net, x: torch.cat([F.max_pool2d(net.conv(x), 3, 2, 1, ceil_mode=True).flatten(1),
                                                      F.avg_pool2d(net.conv(x), 3, 2, 0, ceil_mode=True).flatten(1),
                                                      F.lp_pool2d(net.conv(x).abs() + 0.1, 2, 2).flatten(1)], 1), conv=conv(3, 2, 3)), image
    yield "adaptive_pools", Net(lambda net, x: torch.cat([F.adaptive_avg_pool2d(net.conv(x), (2, 4)).flatten(1),
                                                          F.adaptive_max_pool2d(net.conv(x), 4).flatten(1)], 1), conv=conv(3, 2, 3, padding=1)), image
    yield "wavenet", Net(wavenet, layers=nn.ModuleList([nn.Conv1d(12, 8, 2, dilation=d) for d in (1, 2, 4)]), head=nn.Conv1d(4, 5, 1)), sequence
    yield "conv3d", sequential(nn.Conv3d(2, 4, 3, 1, 1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2), nn.ConvTranspose3d(4, 3, 2, 2),
                               nn.InstanceNorm3d(3, affine=True), nn.AvgPool3d(2)), volume
    yield "lstm", Recurrent(nn.LSTM(12, 6, num_layers=2, batch_first=True)), sequence
    yield "lstm_bidirectional", Recurrent(nn.LSTM(12, 6, batch_first=True, bidirectional=True)), sequence
    yield "gru_bidirectional", Recurrent(nn.GRU(12, 6, batch_first=True, bidirectional=True)), sequence
    yield "rnn_relu", Recurrent(nn.RNN(12, 6, num_layers=2, batch_first=True, nonlinearity="relu")), sequence
    yield "encoder_decoder", Net(transformer, body_=nn.Transformer(12, 3, 1, 1, 24, 0.0, batch_first=True), head=nn.Linear(12, 5)), sequence
    yield "masked_attention", Net(attended, attention=nn.MultiheadAttention(12, 4, batch_first=True)), sequence
    yield "bert", Net(lambda net, x: net.head(net.layer(net.norm(net.words(x) + net.places(torch.arange(7))))), words=nn.Embedding(20, 12),
                      places=nn.Embedding(7, 12), norm=nn.LayerNorm(12), head=nn.Linear(12, 20),
                      layer=nn.TransformerEncoderLayer(12, 3, 24, 0.0, "gelu", batch_first=True)), words
    yield "nearest", resized("nearest", size=(23, 29)), image
    yield "bilinear", resized("bilinear", size=(23, 29), align_corners=False), image
    yield "bilinear_corners", resized("bilinear", size=(23, 29), align_corners=True), image
    yield "bilinear_half", resized("bilinear", scale_factor=0.5, align_corners=False), image
    yield "bicubic", resized("bicubic", size=(23, 29), align_corners=False), image
    yield "spatial_transformer", Net(warped, conv=conv(3, 2, 3, padding=1), place=nn.Linear(3, 6)), image
    for mode in ("reflect", "replicate", "circular"):
        yield f"pad_{mode}", conv(3, 4, 3, padding=2, padding_mode=mode), image
    yield "channel_shuffle", Net(lambda net, x: net.conv(x).view(2, 2, 3, 16, 16).transpose(1, 2).reshape(2, 6, 16, 16), conv=conv(3, 6, 1)), image
    yield "moves", Net(moves, w=weight(12, 4)), sequence
    yield "reductions", Net(reductions, w=weight(12, 4)), sequence
    yield "functions", Net(functions, w=weight(12, 4)), sequence
    yield "einsum", Net(lambda net, x: torch.einsum("bic,bjc,co->bijo", x @ net.w, x, net.v), w=weight(12, 12), v=weight(12, 3)), sequence
    yield "fold", Net(lambda net, x: F.fold(F.unfold(net.conv(x), 3, padding=1) * net.scale, (16, 16), 3, padding=1), conv=conv(3, 2, 1),
                      scale=weight(18, 1)), image
    yield "lrn", sequential(conv(3, 8, 3), nn.LocalResponseNorm(5), nn.MaxPool2d(2)), image
    yield "bn1d", Net(lambda net, x: net.norm(net.dense(x.flatten(1))), dense=nn.Linear(60, 8), norm=nn.BatchNorm1d(8)), sequence
    yield "softmax", Net(lambda net, x: F.log_softmax(net.dense(x), -1) + F.softmax(net.dense(x), 1), dense=nn.Linear(12, 6)), sequence


def relative(got, want, least=0.0):
    return float(np.abs(got - want).max() / max(np.abs(want).max(), least))


def export(module, x, path, dynamo):
    if dynamo:
        torch.onnx.export(module, (x,), path, input_names=["x"], output_names=["y"], opset_version=20, dynamo=True, optimize=False,
                          external_data=False, verbose=False)
    else:
        torch.onnx.export(module, (x,), path, input_names=["x"], output_names=["y"], opset_version=20, dynamo=False,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)


def compare(binary, module, x, folder, dynamo):
    """The largest differences of the output and of a gradient, the parameter's name, how many there are."""
    module(x)  # lazy parts take their sizes
    module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    export(module, x, f"{folder}/net.onnx", dynamo)
    module.load_state_dict(before)
    if dynamo:
        for part in module.modules():
            part.train(not isinstance(part, nn.modules.batchnorm._BatchNorm))
    output = module(x)
    cotangent = torch.randn_like(output)
    (output * cotangent).sum().backward()
    np.savez(f"{folder}/feeds.npz", x=x.numpy(), cotangent=cotangent.numpy())
    gradients = {name: value.grad.numpy() for name, value in module.named_parameters() if value.grad is not None}
    subprocess.run([binary, "run", f"--onnx={folder}/net.onnx", f"--feeds={folder}/feeds.npz", "--train",
                    "--loss=weighted_sum:y:cotangent", f"--fetches=loss,y,{','.join(f'gradient/{name}' for name in gradients)}",
                    f"--fetches_out={folder}/fetches.npz"], check=True, capture_output=True, text=True)
    with np.load(f"{folder}/fetches.npz") as fetched:
        differences = {name: relative(fetched[f"gradient/{name}:0"], want, LEAST) for name, want in gradients.items()}
        worst = max(differences, key=differences.get)
        return relative(fetched["y:0"], output.detach().numpy()), differences[worst], worst, len(gradients)


def main():
    binary, *wanted = [argument for argument in sys.argv[1:] if argument != "--dynamo"]
    dynamo = "--dynamo" in sys.argv
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    failures = 0
    print("| network | output | worst gradient | of | gradients |\n|---|---|---|---|---|")
    for name, module, x in networks():
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                output, gradient, worst, count = compare(binary, module, x, pathlib.Path(folder), dynamo)
            except subprocess.CalledProcessError as error:
                print(f"| {name} | failed: {error.stderr.strip().splitlines()[-1]} | | | |", flush=True)
                failures += 1
                continue
            except torch.onnx.OnnxExporterError as error:
                print(f"| {name} | not exported: {str(error).splitlines()[0]} | | | |", flush=True)
                continue
        failures += output > TOLERANCE or (gradient > TOLERANCE and name not in NORMALISED)
        print(f"| {name} | {output:.1e} | {gradient:.1e} | {worst} | {count} |", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
