#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""TensorBoard's own reader returns each kind of event that reel writes. Its page shows them, where the wheel playwright
and a Chromium are installed: texts are compared, not pixels. Skipped without TensorBoard."""
import importlib.util
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

try:
    import numpy as np
    import tensorboard
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.audio import metadata as audio, plugin_data_pb2
    from tensorboard.plugins.hparams import metadata as hparams
    from tensorboard.util import tensor_util
except ImportError as missing:
    print(f"Python has no {missing.name}")
    sys.exit(77)

SHAPES = {"weights": ("histograms", (30, 3)), "input": ("images", (3,)), "note": ("text", (1,)), "tone": ("audio", (1, 2)),
          "curve": ("pr_curves", (6, 3)), "odd \n\x01\ufffd": ("scalars", ())}

# Texts of each tab. The graph has a box for the scope and hides the ops in it.
TABS = {"timeseries": ["train", "weights", "input"], "graphs": ["Main Graph", "scope", "tanh"], "histograms": ["weights"],
        "images": ["input"], "audio": ["tone"], "text": ["note", "rate"], "pr_curves": ["curve"],
        "hparams": ["rate", "optimizer"]}
# The page has shadow roots, which --dump-dom leaves out.
TEXT_OF_PAGE = """() => {
  const texts = [];
  const visit = node => {
    if (node.nodeType === Node.TEXT_NODE) texts.push(node.textContent);
    if (node.nodeName === 'STYLE' || node.nodeName === 'SCRIPT') return;
    if (node.shadowRoot) visit(node.shadowRoot);
    node.childNodes.forEach(visit);
  };
  visit(document.body);
  return texts.join('\\n');
}"""


def check_page(folder):
    """Says how many tabs the page has shown, or why it was not looked at."""
    browser = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if not browser or not importlib.util.find_spec("playwright"):
        return "the page is not looked at: " + ("playwright" if browser else "chromium") + " is missing"
    from playwright.sync_api import sync_playwright
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", str(port),
                               "--load_fast=false"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with sync_playwright() as play:
            page = play.chromium.launch(executable_path=browser, args=[
                "--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]).new_page()
            for tab, texts in TABS.items():
                missing = texts
                deadline = time.monotonic() + 90
                while missing and time.monotonic() < deadline:
                    try:
                        page.goto(f"http://127.0.0.1:{port}/#{tab}")
                        page.reload()
                        page.wait_for_timeout(4000)
                        shown = page.evaluate(TEXT_OF_PAGE).split("\n")
                    except Exception:  # the server has not started yet
                        time.sleep(1)
                        continue
                    missing = [text for text in texts if not any(text in line for line in shown)]
                assert not missing, f"the tab {tab} does not show {missing}"
    finally:
        server.terminate()
        server.wait()
    return f"its page shows {len(TABS)} tabs"


def check(folder):
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    loss = [(e.step, tensor_util.make_ndarray(e.tensor_proto).item()) for e in events.Tensors("train/loss")]
    assert loss == [(i, np.float32(np.exp(-i / 20))) for i in range(100)], loss
    for tag, (plugin, shape) in SHAPES.items():
        assert events.SummaryMetadata(tag).plugin_data.plugin_name == plugin, tag
        array = tensor_util.make_ndarray(events.Tensors(tag)[0].tensor_proto)
        assert array.shape == shape, f"{tag}: {array.shape}"
    assert np.isnan(tensor_util.make_ndarray(events.Tensors("odd \n\x01\ufffd")[0].tensor_proto))
    content = events.SummaryMetadata(hparams.SESSION_START_INFO_TAG).plugin_data.content
    settings = hparams.parse_session_start_info_plugin_data(content).hparams
    assert settings["rate"].number_value == 1e-3 and settings["optimizer"].string_value == "adam" and settings["nesterov"].bool_value
    content = events.SummaryMetadata(hparams.EXPERIMENT_TAG).plugin_data.content
    assert hparams.parse_experiment_plugin_data(content).metric_infos[0].name.tag == "train/loss"
    content = events.SummaryMetadata("tone").plugin_data.content
    assert audio.parse_plugin_metadata(content).encoding == plugin_data_pb2.AudioPluginData.WAV
    nodes = {node.name: node for node in events.Graph().node}
    assert nodes["scope/product"].op == "multiply" and nodes["scope/product"].input == ["argument_0"], nodes
    assert nodes["scope/product"].attr["_output_shapes"].list.shape[0].dim[0].size == 3, nodes
    assert nodes["tanh"].input == ["scope/product"] and nodes["argument_0"].op == "Placeholder", nodes
    return len(events.Tags()["tensors"])


def check_projector(folder):
    """What the projector's page asks of its server."""
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
    from werkzeug.test import Client
    plugin = ProjectorPlugin(TBContext(logdir=folder))
    serve = {path.strip("/"): Client(app) for path, app in plugin.get_plugin_apps().items()}

    def ask(path, **query):
        answer = serve[path].get("/", query_string={"run": ".", **query})
        assert answer.status_code == 200, f"{path}: {answer.data}"
        return answer
    entries = {entry["tensorName"]: entry for entry in ask("info").json["embeddings"]}
    assert list(entries) == ["words", "pictures"], entries
    assert all(entry["tensorShape"] == [3, 3] for entry in entries.values()), entries
    assert entries["pictures"]["sprite"]["singleImageDim"] == [2, 2], entries
    for name, texts in {"words": "a\nb\nc\n", "pictures": "label\tkind\na\tvowel\nb\tother\nc\tother\n"}.items():
        assert ask("metadata", name=name).text == texts, name
        assert (np.frombuffer(ask("tensor", name=name).data, "float32").reshape(3, 3) == np.eye(3)).all(), name
    sheet = np.zeros((4, 4, 3), "uint8")
    for i, picture in enumerate(np.round(np.linspace(0, 1, 36, dtype="float32").reshape(3, 2, 2, 3) * 255)):
        sheet[i // 2 * 2:, i % 2 * 2:][:2, :2] = picture
    png = ask("sprite_image", name="pictures").data
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and png[16:25] == struct.pack(">IIB", 4, 4, 8), png[:25]
    start = png.index(b"IDAT")
    packed = png[start + 4:start + 4 + struct.unpack(">I", png[start - 4:start])[0]]
    lines = np.frombuffer(zlib.decompress(packed), "uint8").reshape(4, 13)
    assert (lines[:, 0] == 0).all() and (lines[:, 1:].reshape(4, 4, 3) == sheet).all(), lines
    return len(entries)


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "REEL_SUMMARIES": folder}
        subprocess.run([build / "tests/test_io", "[every_event]"], env=environment, check=True, stdout=subprocess.DEVNULL)
        print(f"TensorBoard {tensorboard.__version__} reads {check(folder)} tags and {check_projector(folder)} tables; "
              f"{check_page(folder)}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
