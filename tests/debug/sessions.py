#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sessions with a program that listens: sessions.py BUILD. Clients of its socket that are polite, send garbage, stop
reading, or go away; and three sessions of reel-debug in tmux, where both are installed."""
import ctypes
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time


class Client:
    def __init__(self, path):
        self.socket = wait_for(lambda: self.connected(path))
        require(self.socket, f"a program that listens at {path}")
        self.file = self.socket.makefile("rwb")

    @staticmethod
    def connected(path):
        """None between bind() and listen() of the program."""
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(30)
        try:
            made.connect(path)
        except ConnectionRefusedError:
            made.close()
            return None
        return made

    def ask(self, line):
        self.file.write(line.encode("latin-1") + b"\n")
        self.file.flush()
        return self.file.read(int(self.file.readline())).decode()

    def close(self):
        self.file.close()
        self.socket.close()


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    return None


def require(condition, what):
    if not condition:
        sys.exit(f"expected {what}")


def processor_time(process):
    """In clock ticks."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


NOBODY = 65534
MAY_OPEN_ALL = 1 << 1  # CAP_DAC_OVERRIDE


def as_another_user(path, rights):
    """What a client with another uid gets: a line, or the name of an error. With `rights`, the modes of the folder and of
    the socket do not hold it back, so only the program can."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None)
        libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        libc.capset(header, (ctypes.c_uint32 * 6)(rights, rights, 0, 0, 0, 0))
        try:
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(30)
            client.connect(path)
            answer = client.makefile("rb").read()
        except OSError as error:
            answer = type(error).__name__.encode()
        os.write(writer, answer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        answer = file.read().decode()
    os.waitpid(child, 0)
    return answer


def another_user(path):
    """Root makes a client of another user."""
    if os.geteuid() != 0:
        print("not root: a client of another user is not tested")
        return
    require(as_another_user(path, 0) == "PermissionError", "a socket that another user cannot open")
    got = as_another_user(path, MAY_OPEN_ALL)
    if got == "PermissionError":
        print("no right to open all files: what the program says to another user is not tested")
        return
    require(got.partition("\n")[2] == "expected the user of the program, got another one\n", f"a refusal, not {got!r}")


def sockets(program, folder):
    """Clients of the socket of a program that runs without an end."""
    process = subprocess.Popen([program, f"{folder}/never"], env=dict(os.environ, REEL_DEBUG="listen", XDG_RUNTIME_DIR=folder))
    try:
        path = f"{folder}/reel-debug.{process.pid}"
        require(wait_for(lambda: os.path.exists(path)), "a socket")
        require(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "a socket of mode 0600")
        another_user(path)
        client = Client(path)
        require("running" in client.ask("text info"), "a program that runs")
        require(json.loads(client.ask("json frobnicate")) ==
                {"ok": False, "error": 'expected a command; `help` lists them, got "frobnicate"'}, "an error as JSON")
        require('expected "text COMMAND" or "json COMMAND"' in client.ask("\x01\xff\x00 garbage"), "an answer to garbage")
        client.ask("text stop")
        require(wait_for(lambda: "stopped: step" in client.ask("text info")), "a program that has stopped")
        rows = json.loads(client.ask("json tensors"))
        require(rows["ok"] and rows["columns"][0] == "N" and rows["rows"], "a table")
        client.ask("text run to dense")
        require(wait_for(lambda: "stopped: until dense" in client.ask("text info")), "a stop at dense")
        before = processor_time(process.pid)
        client.close()  # it dies while the program is stopped: the program goes on, and uses the processor
        require(wait_for(lambda: processor_time(process.pid) > before + 20, 60), "a program that goes on without its client")
        client = Client(path)
        client.file.write(b"text " + b"x" * 50000)
        client.file.flush()
        try:
            require(b"expected a line of at most" in client.file.read(), "an end for an endless line")
        except ConnectionResetError:  # it has not read the rest of the line
            pass
        client.socket.close()
        silent = Client(path)  # asks without reading
        silent.socket.settimeout(1)
        try:
            for _ in range(20000):
                silent.socket.sendall(b"text help\n")
        except OSError:
            pass
        silent.close()
        client = Client(path)
        require("running" in client.ask("text info"), "a program that goes on after a client that does not read")
        client.close()
        require(process.poll() is None, "a program that still runs")
    finally:
        process.kill()
        process.wait()


def attach_and_leave(program, folder, times=100):
    """Clients that come, stop the program, look and leave do not change a bit of its weights."""
    end = pathlib.Path(folder, "end")
    process = subprocess.Popen([program, end], env=dict(os.environ, REEL_DEBUG="listen", XDG_RUNTIME_DIR=folder),
                               stdout=subprocess.PIPE, text=True)
    try:
        path = f"{folder}/reel-debug.{process.pid}"
        require(wait_for(lambda: os.path.exists(path)), "a socket")
        for time_ in range(times):
            client = Client(path)
            client.ask("text stop")
            require(wait_for(lambda: "stopped: " in client.ask("text info")), f"a program that has stopped, time {time_}")
            require(client.ask("text tensors"), "an answer")
            client.close()
        end.touch()
        steps, _, weights = process.communicate(timeout=120)[0].partition("\n")
        alone = subprocess.run([program, steps], capture_output=True, text=True, check=True).stdout
        require(weights == alone, f"the weights of {steps} steps that nobody looks at")
    except ConnectionError:
        sys.exit(f"expected a program that answers, got one with status {process.wait(10)}")
    finally:
        process.kill()
        process.wait()


def screens(build, program):
    """Three sessions of the full screen."""
    debugger = build / "lib/debug/reel-debug"
    if not debugger.exists() or not shutil.which("tmux"):
        print("there is no tmux or no reel-debug: the full screen is not tested")
        return
    server = ""

    def tmux(*words):
        done = subprocess.run(["tmux", "-L", server, *words], capture_output=True, text=True)
        require(done.returncode == 0, f"tmux {words[0]}, got {done.stderr!r}")
        return done.stdout

    def shows(text):
        seen = []
        if not wait_for(lambda: text in (seen.append(tmux("capture-pane", "-p", "-t", "a")) or seen[-1]), 40):
            sys.exit(f"expected {text!r} on the screen, got\n{seen[-1]}")

    def keys(*words):
        tmux("send-keys", "-t", "a", *words)

    sessions = [
        [(["run until has_nan", "Enter"], "stopped: until has_nan"), (["tensors", "Enter"], "matmul_add"),
         (["/log", "Enter"], "log"), (["op log", "Enter"], "at program.cpp:21, call 1 at this line in step")],
        [(["F10"], "stopped: step"), (["F10"], "2 results"), (["break tanh if norm > 100", "Enter"], "stop 1"),
         (["br", "Tab", "Enter"], "hits"), (["frobnicate", "Enter"], "expected a command")],
        [(["run 2", "Enter"], "step 2"), (["gradients", "Enter"], "no complete gradients yet"), (["back", "Enter"], "expected a result"),
         (["look -1", "Enter"], "step 1:"), (["show dense", "Enter"], "'@' is")],
    ]
    try:
        for number, session in enumerate(sessions):
            # A server ends with its last session, and a new session may still reach the ending server.
            server = f"reel{os.getpid()}.{number}"
            tmux("new-session", "-d", "-x", "120", "-y", "35", "-s", "a", f"'{debugger}' '{program}'; echo status $?; sleep 60")
            shows("stopped: the program begins")
            for typed, seen in session:
                keys(*typed)
                shows(seen)
            keys("q")
            shows("the program has ended")
            shows("status 0")
            tmux("kill-server")
    finally:
        subprocess.run(["tmux", "-L", server, "kill-server"], capture_output=True)


def main(build):
    os.environ["REEL_DEBUG_LIBRARY"] = str(build / "lib/debug/libreel_debug.so")
    os.environ.pop("REEL_DEBUG", None)
    program = str(build / "tests/debug_program")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        sockets(program, folder)
        attach_and_leave(program, folder)
    screens(build, program)
    alone = subprocess.run([str(build / "lib/debug/reel-debug"), program], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True) if (build / "lib/debug/reel-debug").exists() else None
    require(not alone or "expected a terminal, got none" in alone.stderr, "a message where there is no terminal")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
