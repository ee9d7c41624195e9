#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the .npz and .pt files of this folder anew: pip install numpy torch."""
import pathlib
from collections import OrderedDict

import numpy as np
import torch
from make import DTYPES

HERE = pathlib.Path(__file__).resolve().parent


def npz_files():
    numbers = np.arange(6).reshape(2, 3)
    arrays = {name: numbers.astype(name) for name in DTYPES if name != "bfloat16"}
    arrays |= {"scalar": np.float32(2.5), "empty": np.zeros((0, 3), np.float32),
               "fortran": np.asfortranarray(numbers.astype(np.float32))}
    np.savez(HERE / "stored.npz", **arrays)
    np.savez_compressed(HERE / "deflated.npz", **arrays)


def torch_file():
    numbers = torch.arange(6.0).reshape(2, 3)
    shared = torch.arange(10.0)
    torch.save({"model": OrderedDict((f"x.{name}", numbers.to(dtype)) for name, dtype in DTYPES.items()),
                "views": [numbers.T, shared[2:8:2], shared, torch.tensor(2.5), torch.zeros(0, 3)],
                "parameter": torch.nn.Parameter(torch.ones(2)), "expanded": torch.tensor([7.0]).expand(2, 3),
                "tied": shared, 3: {"step": torch.tensor(4), "size": torch.Size([1, 2])},
                "epoch": 5, "rate": 0.25, "name": "é", "none": None, "flags": (True, False), "big": -2**40},
               HERE / "mixed.pt")


def narrow_files():
    values = {"int8": [-128, 127], "int16": [-32768, 32767], "uint16": [0, 65535], "uint32": [0, 2**32 - 1],
              "uint64": [0, 2**63 - 1]}
    tensors = {name: torch.tensor(numbers, dtype=getattr(torch, name)) for name, numbers in values.items()}
    shared = torch.arange(10.0)
    tensors |= {"step": torch.tensor(4), "views": [shared[2:8:2], shared], "complex": torch.zeros(2, dtype=torch.complex64),
                "device": torch.device("cpu"), "epoch": 5}
    torch.save(tensors, HERE / "narrow.pt")
    torch.save(tensors, HERE / "legacy.pt", _use_new_zipfile_serialization=False)


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 4)
        self.lstm = torch.nn.LSTM(4, 5, num_layers=2, bidirectional=True)
        self.gru = torch.nn.GRU(10, 3, num_layers=2, bidirectional=True)
        self.norm = torch.nn.LayerNorm(6)
        self.cells = torch.nn.ModuleDict({"lstm": torch.nn.LSTMCell(6, 4), "gru": torch.nn.GRUCell(4, 4), "rnn": torch.nn.RNNCell(4, 4)})
        self.head = torch.nn.Linear(4, 7)

    def forward(self, words):
        x = self.norm(self.gru(self.lstm(self.embed(words))[0])[0])[-1]
        h, _ = self.cells["lstm"](x)
        return self.head(self.cells["rnn"](self.cells["gru"](h)))


def tagger():
    torch.manual_seed(1)
    model = Tagger()
    words = torch.randint(0, 11, (6, 3))
    torch.save(model.state_dict(), HERE / "tagger.pt")
    with torch.no_grad():
        torch.save({"words": words, "scores": model(words)}, HERE / "tagged.pt")


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.batch = torch.nn.BatchNorm1d(4)
        self.group = torch.nn.GroupNorm(2, 4)
        self.rms = torch.nn.RMSNorm(4, eps=1e-5)
        self.layer = torch.nn.LayerNorm(4, bias=False)
        self.rnn = torch.nn.RNN(4, 3, num_layers=2, bidirectional=True)
        self.lstm = torch.nn.LSTM(6, 2, bias=False)
        self.gru = torch.nn.GRU(2, 2, bias=False)
        self.cells = torch.nn.ModuleDict({"lstm": torch.nn.LSTMCell(2, 2, bias=False), "gru": torch.nn.GRUCell(2, 2, bias=False),
                                          "rnn": torch.nn.RNNCell(2, 2, bias=False)})

    def forward(self, x):
        x = self.layer(self.rms(self.group(self.batch(x))))
        x = self.gru(self.lstm(self.rnn(x.unsqueeze(0))[0])[0])[0][0]
        return self.cells["rnn"](self.cells["gru"](self.cells["lstm"](x)[0]))


def layers():
    torch.manual_seed(2)
    model = Layers()
    with torch.no_grad():
        for name, x in model.named_parameters():
            if name.split(".")[0] in ("batch", "group", "rms", "layer"):
                x.uniform_(0.5, 1.5)
        for _ in range(3):
            model.batch(torch.randn(8, 4) * 2 + 1)
        model.eval()
        x = torch.randn(5, 4)
        torch.save(model.state_dict(), HERE / "layers.pt")
        torch.save({"x": x, "y": model(x)}, HERE / "layered.pt")


class Transformers(torch.nn.Module):
    """Layers with norms first and last, a decoder, and attention by itself."""
    def __init__(self):
        super().__init__()
        options = dict(dim_feedforward=6, batch_first=True, dropout=0.0)
        self.first = torch.nn.TransformerEncoderLayer(4, 2, norm_first=True, activation="gelu", **options)
        self.last = torch.nn.TransformerEncoderLayer(4, 2, bias=False, **options)
        self.decoder = torch.nn.TransformerDecoderLayer(4, 2, **options)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x, memory, keep):
        x = self.last(self.first(x), src_key_padding_mask=~keep)
        causal = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = self.decoder(x, memory, tgt_mask=causal)
        return self.attention(x, memory, memory)[0]


def transformers():
    torch.manual_seed(3)
    model = Transformers()
    with torch.no_grad():
        for x in model.parameters():
            if x.dim() == 1:
                x.add_(torch.rand_like(x) - 0.5)
        x, memory, keep = torch.randn(2, 5, 4), torch.randn(2, 3, 4), torch.arange(5) < torch.tensor([[3], [5]])
        torch.save(model.state_dict(), HERE / "transformers.pt")
        torch.save({"x": x, "memory": memory, "y": model(x, memory, keep)}, HERE / "transformed.pt")


if __name__ == "__main__":
    npz_files()
    torch_file()
    narrow_files()
    tagger()
    layers()
    transformers()
