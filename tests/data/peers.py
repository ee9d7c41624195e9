#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""reel reads files and tables of other programs as they read them: of Python's csv and gzip, Pillow, soundfile, gensim,
conllu, TensorFlow and pyarrow. TensorFlow reads the records that reel writes. What Python does not have is skipped by
name."""
import csv
import ctypes
import gzip
import importlib
import io
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as missing:
    print(f"Python has no {missing.name}")
    sys.exit(77)

RNG = np.random.default_rng(1)
CONLLU = """# sent_id = 1
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\tMood=Imp|Number=Plur\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc\t1\tobj\t_\t_
2.1\tx\tx\t_\t_\t_\t_\t_\t1:dep\t_

# sent_id = 2
1\t_\t_\tSYM\t_\t_\t0\troot\t_\tSpaceAfter=No

"""


class Files:
    """Files in a folder, and the list of what is wanted of them."""
    def __init__(self, folder):
        self.folder, self.list = folder, []

    def add(self, kind, file, wanted, *numbers):
        self.list.append(" ".join(map(str, [kind, file, wanted, *numbers])))

    def array(self, name, x):
        np.save(self.folder / name, x)
        return name

    def lines(self, name, texts):
        (self.folder / name).write_text("".join(text + "\n" for text in texts), encoding="utf-8")


def python_files(files):
    cells = ["", "a", "a,b", 'say "x"', "two\nlines", "two\r\nlines", " space ", "é", "'", '"', ",", "\t"]
    rows = [[random.Random(i * 9 + k).choice(cells) for k in range(3)] for i in range(200)]
    with open(files.folder / "x.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    files.lines("x.jsonl", map(json.dumps, rows))
    files.add("csv", "x.csv", "x.jsonl")
    for code, dtype in {8: "u1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}.items():
        x = RNG.integers(0, 100, (3, 4, 5)).astype(dtype)
        packed = struct.pack(">BBBBIII", 0, 0, code, 3, *x.shape) + x.tobytes()
        (files.folder / f"{code}.idx.gz").write_bytes(gzip.compress(packed))
        files.add("idx", f"{code}.idx.gz", files.array(f"{code}.npy", x.astype(x.dtype.newbyteorder("="))))


def pillow_files(files):
    image = importlib.import_module("PIL.Image")
    smooth = np.add.outer(np.arange(37) * 3, np.arange(29) * 4)[..., None] + np.array([0, 20, 40])
    rgb = image.fromarray((smooth % 256).astype("uint8"))
    pictures = {"rgb.png": rgb, "gray.png": rgb.convert("L"), "rgba.png": rgb.convert("RGBA"), "la.png": rgb.convert("LA"),
                "palette.png": rgb.quantize(16), "bit.png": rgb.convert("1"), "rgb.jpg": rgb, "gray.jpg": rgb.convert("L")}
    for name, picture in pictures.items():
        picture.save(files.folder / name)
        read = image.open(files.folder / name)
        kept = read.convert("RGB") if read.mode == "P" else read.convert("L") if read.mode == "1" else read
        x = np.asarray(kept)
        files.add("image", name, files.array(name + ".npy", x.reshape(*x.shape[:2], -1)), 0, 2)
        files.add("image", name, files.array(name + ".3.npy", np.asarray(read.convert("RGB"))), 3, 2)
        gray = np.asarray(read.convert("RGB").convert("L"))[..., None]
        files.add("image", name, files.array(name + ".1.npy", gray), 1, 2)
    rgb.save(files.folder / "small.jpg", quality=60, progressive=True, subsampling=2)
    files.add("image", "small.jpg", files.array("small.npy", np.asarray(image.open(files.folder / "small.jpg"))), 3, 4)


def soundfile_files(files):
    soundfile = importlib.import_module("soundfile")
    wave = np.sin(np.arange(3000)[:, None] * [0.01, 0.02]) * 0.7
    for name, kind in {"u8.wav": "PCM_U8", "16.wav": "PCM_16", "24.wav": "PCM_24", "32.wav": "PCM_32", "float.wav": "FLOAT",
                       "double.wav": "DOUBLE", "16.flac": "PCM_16", "24.flac": "PCM_24", "x.ogg": "VORBIS"}.items():
        soundfile.write(files.folder / name, wave, 22050, subtype=kind)
        if name.endswith("wav") or has_sndfile():
            files.add("audio", name, files.array(name + ".npy", soundfile.read(files.folder / name, dtype="float32")[0]), 22050)
    soundfile.write(files.folder / "extensible.wav", wave, 22050, format="WAVEX", subtype="PCM_16")
    files.add("audio", "extensible.wav", files.array("extensible.npy", soundfile.read(files.folder / "extensible.wav", dtype="float32")[0]), 22050)


def has_sndfile():
    try:
        return bool(ctypes.CDLL("libsndfile.so.1"))
    except OSError:
        return False


def gensim_files(files):
    models = importlib.import_module("gensim.models")
    words = ["the", "dog", "é", "New York", "1"]
    vectors = models.KeyedVectors(vector_size=7)
    vectors.add_vectors(words, RNG.normal(size=(5, 7)).astype("float32"))
    vectors.save_word2vec_format(files.folder / "w2v.txt")
    vectors.save_word2vec_format(files.folder / "glove.txt", write_header=False)
    files.lines("vectors.txt", words)
    files.array("vectors.npy", vectors.vectors)
    files.add("vectors", "w2v.txt", "vectors")
    files.add("vectors", "glove.txt", "vectors")


def conllu_files(files):
    conllu = importlib.import_module("conllu")
    sentences = conllu.parse(CONLLU)
    (files.folder / "x.conllu").write_text("".join(s.serialize() for s in sentences), encoding="utf-8")
    files.lines("conllu.txt", [f"{t['form']} {t['head']} {t['deprel']}" for s in sentences for t in s if isinstance(t["id"], int)])
    files.add("conllu", "x.conllu", "conllu.txt")


def tensorflow_files(files):
    tf = importlib.import_module("tensorflow")
    x, y = RNG.normal(size=(50, 40)).astype("float32"), RNG.integers(-5, 10**12, (50, 3))
    texts = [f"text é {i}" for i in range(50)]
    with tf.io.TFRecordWriter(str(files.folder / "x.tfrecord")) as writer:
        for i in range(50):
            feature = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=x[i])),
                       "y": tf.train.Feature(int64_list=tf.train.Int64List(value=y[i])),
                       "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[texts[i].encode()]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    files.array("records.x.npy", x)
    files.array("records.y.npy", y)
    files.lines("records.txt", texts)
    files.add("records", "x.tfrecord", "records")


def check_our_records(files):
    """TensorFlow reads what reel has written of what it read."""
    import tensorflow as tf
    for theirs, ours in zip(*(tf.data.TFRecordDataset(str(files.folder / name)) for name in ("x.tfrecord", "x.tfrecord.ours")), strict=True):
        assert tf.train.Example.FromString(theirs.numpy()) == tf.train.Example.FromString(ours.numpy())


def pyarrow_tables(build):
    pa = importlib.import_module("pyarrow")
    take = ctypes.CDLL(build / "tests/libexchange.so").take_arrow

    def read(table, nulls=False):
        text = ctypes.create_string_buffer(10_000)
        stream = (ctypes.c_char * 40)()
        table.to_reader(max_chunksize=2)._export_to_c(ctypes.addressof(stream))
        take(ctypes.byref(stream), nulls, text, len(text))
        return text.value.decode()

    table = pa.table({"a": pa.array([1, 2, 3], pa.int16()), "b": pa.array([True, False, True]), "c": pa.array(["x", "é", "z"]),
                      "d": pa.array(["p", "q", "p"]).dictionary_encode(), "e": pa.array([0.5, 1.5, 2.5], pa.float32()),
                      "f": pa.array(["l", "m", "n"], pa.large_string()), "g": pa.array([1, 2, 3], pa.uint64())})
    wanted = "a: 1 2 3\nb: 1 0 1\nc: x é z\nd: p q p\ne: 0.5 1.5 2.5\nf: l m n\ng: 1 2 3\n"
    assert read(table) == wanted, read(table)
    assert read(pa.concat_tables([table, table]).slice(2, 3)) == "a: 3 1 2\nb: 1 1 0\nc: z x é\nd: p p q\ne: 2.5 0.5 1.5\nf: n l m\ng: 3 1 2\n"
    holes = pa.table({"a": pa.array([1, None, 3]), "c": pa.array(["x", "y", None])})
    assert read(holes, True) == "a: 1 0 3 + - +\nc: x y  + + -\n", read(holes, True)
    assert "expected elements without null, got null in row 1" in read(holes)
    assert "got the format 'tdD'" in read(pa.table({"t": pa.array([1], pa.date32())}))
    return 5


def main(build):
    done, absent = [], []

    def attempt(name, make, *arguments):
        try:
            make(*arguments)
            done.append(name)
        except ModuleNotFoundError as missing:
            absent.append(missing.name)

    with tempfile.TemporaryDirectory() as folder:
        files = Files(pathlib.Path(folder))
        attempt("Python", python_files, files)
        attempt("Pillow", pillow_files, files)
        attempt("soundfile", soundfile_files, files)
        attempt("gensim", gensim_files, files)
        attempt("conllu", conllu_files, files)
        attempt("TensorFlow", tensorflow_files, files)
        files.lines("list", files.list)
        subprocess.run([build / "tests/test_data", "[peers]"], env={**os.environ, "REEL_PEERS": folder}, check=True)
        if "TensorFlow" in done:
            check_our_records(files)
    attempt("pyarrow", pyarrow_tables, build)
    print(f"{len(files.list)} files; tables and files of {', '.join(done)}" + (f"; Python has no {', '.join(absent)}" if absent else ""))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
