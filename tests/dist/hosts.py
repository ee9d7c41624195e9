#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on several hosts of one machine: network namespaces that a bridge joins, each with a rate of 1 Gbit.

    python3 tests/dist/hosts.py build/test

Needs the right to make namespaces, as root has; without it the test is skipped by name. It removes what it has made."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mpi
from mpi import BUILD, ENV, PROGRAM, check, counts, numbers

PREFIX = f"reel{os.getpid()}"
HOSTS = [f"{PREFIX}h{i}" for i in range(4)]
SWITCH = f"{PREFIX}sw"
# The library below MPICH finds that it can reach the other hosts by shared memory.
NETWORK = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}


def sh(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


def make_hosts():
    """Why it cannot; empty if there are hosts now."""
    if not shutil.which("ip") or not shutil.which("tc") or not shutil.which("unshare"):
        return "no ip, tc or unshare"
    steps = [f"ip netns add {SWITCH}", f"ip -n {SWITCH} link add br0 type bridge", f"ip -n {SWITCH} link set br0 up"]
    for i, host in enumerate(HOSTS):
        steps += [f"ip netns add {host}", f"ip -n {host} link set lo up",
                  f"ip link add eth0 netns {host} type veth peer name port{i} netns {SWITCH}",
                  f"ip -n {host} addr add 10.77.0.{i + 1}/24 dev eth0",
                  f"ip -n {SWITCH} link set port{i} master br0", f"ip -n {SWITCH} link set port{i} up",
                  f"ip -n {host} link set eth0 up",
                  f"tc -n {host} qdisc add dev eth0 root tbf rate 1gbit burst 256kb latency 50ms"]
    for step in steps:
        done = sh(*step.split())
        if done.returncode:
            return f"{step}: {done.stderr.strip()}"
    names = "127.0.0.1 localhost\n" + "".join(f"10.77.0.{i + 1} {host}\n" for i, host in enumerate(HOSTS))
    for host in HOSTS:
        folder = pathlib.Path("/etc/netns") / host
        folder.mkdir(parents=True)
        (folder / "hosts").write_text(names)
    return ""


def kill_hosts():
    for host in HOSTS:
        for process in sh("ip", "netns", "pids", host).stdout.split():
            try:
                os.kill(int(process), 9)
            except ProcessLookupError:
                pass


def remove_hosts():
    kill_hosts()
    for name in [*HOSTS, SWITCH]:
        sh("ip", "netns", "del", name)
        shutil.rmtree(pathlib.Path("/etc/netns") / name, ignore_errors=True)


def on_host(host):
    return ["ip", "netns", "exec", host, "unshare", "-u", "sh", "-c", f'hostname {host}; exec "$@"', "sh"]


def write_agent(folder):
    """What launchers start in the place of ssh: [-x] host command..."""
    agent = pathlib.Path(folder) / "agent.sh"
    agent.write_text("#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\n"
                     "exec ip netns exec \"$host\" unshare -u sh -c 'hostname \"$0\"; exec sh -c \"$*\"' \"$host\" \"$@\"\n")
    agent.chmod(0o755)
    return str(agent)


def launcher(name, mpirun, agent, ranks):
    hosts = HOSTS[:ranks]
    if name == "openmpi":
        return [*on_host(HOSTS[0]), mpirun, "--host", ",".join(f"{host}:1" for host in hosts), "-n", str(ranks),
                "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
                "--mca", "oob_tcp_if_include", "eth0"]
    return [*on_host(HOSTS[0]), mpirun, "-launcher", "ssh", "-launcher-exec", agent, "-iface", "eth0", "-hosts",
            ",".join(hosts), "-n", str(ranks)]


def ranks_with(folder):
    """Processes of PROGRAM that have this folder; daemons of a launcher leave its tree."""
    found = []
    for exe in pathlib.Path("/proc").glob("[0-9]*/exe"):
        try:
            if os.readlink(exe) == str(PROGRAM) and folder.encode() in (exe.parent / "environ").read_bytes():
                if (exe.parent / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append(int(exe.parent.name))
        except OSError:  # it has ended
            pass
    return found


def start(command, folder, *arguments, **env):
    return subprocess.Popen([*command, str(PROGRAM), *arguments], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True,
                            env={**ENV, **NETWORK, "REEL_DIST_FOLDER": folder, **env})


def values(name, mpirun, agent):
    if name == "mpich":  # 4.0.2 of Debian over UCX's tcp: some runs do not return from MPI_Finalize()
        return
    alone = {sum_: mpi.run("", 1, "learn", sum_)[1] for sum_ in ("fast", "tree")}
    one = numbers(alone["fast"])
    for ranks in (2, 3, 4):
        for sum_ in ("fast", "tree"):
            with tempfile.TemporaryDirectory() as folder:
                process = start(launcher(name, mpirun, agent, ranks), folder, "learn", sum_)
                try:
                    out, err = process.communicate(timeout=60)
                except subprocess.TimeoutExpired:
                    end(process)
                    out, err = "", "it did not end within 60 s"
            if sum_ == "tree":
                check(f"{name}: {ranks} hosts, tree: the bits of one", out == alone["tree"], err)
                continue
            got = numbers(out)
            most = max((abs(a - b) for a, b in zip(got, one)), default=1)
            check(f"{name}: {ranks} hosts", len(got) == len(one) and most < 1e-6, f"{most}\n{err}")


def end(process):
    """Kills all that runs on the hosts: daemons of a launcher outlive it. Returns what was written."""
    kill_hosts()
    try:
        return process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return "", "its output does not end"


def link_down(name, mpirun, agent):
    timeout = 3
    with tempfile.TemporaryDirectory() as folder:
        process = start(launcher(name, mpirun, agent, 3), folder, "trees", "1000000", TEST_TIMEOUT=str(timeout))
        for _ in range(200):
            time.sleep(0.1)
            if len(ranks_with(folder)) == 3:
                break
        time.sleep(2)
        running = len(ranks_with(folder))
        sh("ip", "-n", HOSTS[1], "link", "set", "eth0", "down")
        begun = time.monotonic()
        while ranks_with(folder) and time.monotonic() < begun + 20:
            time.sleep(0.1)
        seconds, left = time.monotonic() - begun, len(ranks_with(folder))
        try:
            _, err = process.communicate(timeout=3)
        except subprocess.TimeoutExpired:  # a launcher that waits for its daemon on the host
            _, err = end(process)
        kill_hosts()
        sh("ip", "-n", HOSTS[1], "link", "set", "eth0", "up")
        # The first rank that gives up ends the others, also before they have written why. It names the ranks that have not
        # come: rank 1, or one that waits for a lost message of rank 1.
        named = re.search(rf"rank [0-2]: .*: DataParallel.*: (rank [0-9, ]+|network): expected to come within {timeout} s", err)
        check(f"{name}: a link goes down: all ranks end in time", running == 3 and left == 0 and seconds < timeout + 2 + 1.5,
              f"{running} ran, {left} left after {seconds:.1f} s\n{err}")
        check(f"{name}: a link goes down: an error says so", named, err)
        print(f"{name}: all ranks had ended {seconds:.1f} s after the link went down", flush=True)


def plan(name, mpirun, agent):
    """Shows what tools/dist_plan says of a step of 2 hosts beside its time. Another load of the machine is no failure."""
    with tempfile.TemporaryDirectory() as folder:
        process = start(launcher(name, mpirun, agent, 2), folder, "plan")
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            out, err = end(process)
        check(f"{name}: a step for tools/dist_plan", process.returncode == 0, err)
        if process.returncode:
            return
        latency, rate, step, forward = map(float, out.split())
        buckets = [word for i in range(6) for word in ("--bucket", f"{1 << 20}@{10.2 * (i + 1)}")]
        said = sh(sys.executable, "tools/dist_plan", "--forward", str(forward), "--backward", "61.2", "--latency",
                  str(latency), "--rate", str(rate), *buckets, cwd=pathlib.Path(__file__).parents[2])
        planned = float(said.stdout.splitlines()[2].split()[1])
        print(f"{name}: a step of 2 hosts takes {step:.1f} ms, tools/dist_plan says {planned:.1f} ms, of a link of "
              f"{latency:.3f} ms and {rate:.0f} MB/s", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the hosts are removed
    try:
        why = make_hosts()
        if why:
            print(f"skipped: ranks on several hosts: {why}")
            counts["skipped"] += 1
            return 77
        for name in ("openmpi", "mpich"):
            mpirun = shutil.which(f"mpirun.{name}")
            if not mpirun or not (BUILD / f"lib/dist/libreel_mpi_{name}.so").exists():
                print(f"skipped: {name}: no mpirun or no engine")
                counts["skipped"] += 1
                continue
            with tempfile.TemporaryDirectory() as folder:
                agent = write_agent(folder)
                values(name, mpirun, agent)
                if name == "openmpi":
                    plan(name, mpirun, agent)
                link_down(name, mpirun, agent)
    finally:
        remove_hosts()
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
