#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A step of an MLP on two hosts that a link of 1 Gbit joins, by reel over Open MPI and by torch's
DistributedDataParallel over Gloo, in turns. The hosts are network namespaces, which root can make; torch is that of python3.

    bench/dist_hosts.py build/bench [BATCH...]"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/dist"))
import hosts  # noqa: E402

HERE = pathlib.Path(__file__).parent
TURNS = 3


def step(processes):
    """Milliseconds that rank 0, the first process, has printed."""
    out = processes[0].communicate(timeout=300)[0]
    for process in processes[1:]:
        process.wait(timeout=60)
    return float(re.search(r"takes ([0-9.]+) ms", out).group(1))


def reel(agent, batch, ranks=2):
    command = hosts.launcher("openmpi", "mpirun.openmpi", agent, ranks)
    command += ["--mca", "btl_tcp_eager_limit", "1048576", "--bind-to", "none", str(hosts.BUILD / "bench/dist_steps"), "mlp", batch]
    return step([subprocess.Popen(command, env=hosts.ENV, text=True, stdout=subprocess.PIPE)])


def torch(batch, ranks=2):
    env = {**os.environ, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29511",
           "GLOO_SOCKET_IFNAME": "eth0"}
    return step([subprocess.Popen([*hosts.on_host(hosts.HOSTS[i]), sys.executable, str(HERE / "dist_torch.py"), batch],
                                  env={**env, "RANK": str(i)}, text=True, stdout=subprocess.PIPE) for i in range(ranks)])


def main():
    why = hosts.make_hosts()
    if why:
        hosts.remove_hosts()
        sys.exit(f"no hosts: {why}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            agent = hosts.write_agent(folder)
            for batch in sys.argv[2:] or ["256", "768"]:
                times = [(reel(agent, batch), torch(batch)) for _ in range(TURNS)]
                alone = reel(agent, batch, 1), torch(batch, 1)
                ours, theirs = (statistics.median(column) for column in zip(*times))
                ratio = statistics.median(a / b for a, b in times)
                print(f"MLP, batch {batch}: reel {ours:.1f} ms, torch {theirs:.1f} ms, ratio {ratio:.2f}; "
                      f"one rank {alone[0]:.1f} and {alone[1]:.1f} ms", flush=True)
    finally:
        hosts.remove_hosts()


if __name__ == "__main__":
    main()
