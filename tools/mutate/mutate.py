#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes faults in the library by rule and shows which of them no test case notices."""
import argparse
import fnmatch
import json
import math
import os
import pathlib
import sys
import threading
import time

import build
import report
import smoke
import source
import trial

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/mutate"
FLOOR = 0.879  # share of all faults that must be caught


def read_arguments(words=None):
    parser = argparse.ArgumentParser(prog="./dev check mutate", description=__doc__)
    parser.add_argument("--file", action="append", default=[], metavar="GLOB", help="faults of these files alone")
    parser.add_argument("--id", action="append", default=[], type=int, metavar="N", help="this fault alone")
    parser.add_argument("--every", action="store_true", help="every fault that the rules make, not a choice")
    parser.add_argument("--sample", type=int, metavar="N", help="so many of the chosen faults, of few files")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which sample")
    parser.add_argument("--tests", action="append", default=[], metavar="GLOB",
                        help="test programs to run, like test_trace")
    parser.add_argument("--budget", type=float, default=20, metavar="S",
                        help="seconds of test cases for a fault that none has caught")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs have found")
    parser.add_argument("--list", action="store_true", help="show the faults; run nothing")
    parser.add_argument("--werror", action="store_true", help="fail below the required share; compile with -Dwerror=true")
    parser.add_argument("--smoke", action="store_true", help="try this tool on a small library of its own")
    return parser.parse_args(words)


class Results:
    """Endings of earlier runs, by fault; one counts while the text of its function stays."""

    def __init__(self, folder, fresh):
        self.file = folder / "results.json"
        self.found = {} if fresh or not self.file.exists() else json.loads(self.file.read_text())
        self.lock = threading.Lock()

    def get(self, site):
        context, ending = self.found.get(str(site.number), (None, None))
        return ending if context == site.context else None

    def put(self, site, ending):
        with self.lock:
            self.found[str(site.number)] = site.context, ending

    def refuse(self, sites):
        for site in sites:
            self.put(site, "does not compile")
        self.save()

    def save(self):
        with self.lock:
            beside = self.file.with_suffix(".new")
            beside.write_text(json.dumps(self.found))
            beside.replace(self.file)


def pick(options, sites):
    """The faults to try."""
    if options.id:
        return [site for site in sites if site.number in options.id]
    chosen = source.distinct(sites if options.every else source.choose(sites))
    return sorted(chosen, key=lambda site: (site.file, site.start))


def record(runner, copy, numbers, patterns, file):
    """{fault: [cases]} for faults that are reached and for those that change a value; failing cases.
    The file keeps what was recorded for programs whose sources stay."""
    kept = json.loads(file.read_text()) if file.exists() else {}
    reached, changed, failing = {}, {}, []
    begun, count = time.time(), 0
    for program in copy.programs():
        if patterns and not any(fnmatch.fnmatch(program.name, pattern) for pattern in patterns):
            continue
        key = copy.sources_of(program.name)
        found = kept.get(program.name)
        if not found or found["key"] != key or not set(numbers) <= set(found["numbers"]):
            cases = [(vars(case), *rest) for case, *rest in runner.record("tests/" + program.name, numbers)]
            found = kept[program.name] = {"key": key, "numbers": numbers, "cases": cases}
            file.write_text(json.dumps(kept))
            count += len(cases)
        for fields, ending, all_reached, all_changed in found["cases"]:
            case = trial.Case(**fields)
            if ending != "passed":
                failing.append((case, ending))
                continue
            for number in all_reached:
                reached.setdefault(number, []).append(case)
            for number in all_changed:
                changed.setdefault(number, []).append(case)
    print(f"{count} test cases recorded in {time.time() - begun:.0f} s", flush=True)
    return reached, changed, failing


def ending_of(runner, site, reached, changed, budget):
    if site.number not in reached:
        return "not reached"
    if site.number not in changed:
        return f"changes no value in the {len(reached[site.number])} test cases that reach it"
    cases = changed[site.number]
    count, case, ending = runner.attack(site.number, cases, budget)
    if ending == "passed":
        return f"passes {count} of {len(cases)} test cases that see a change"
    return f"caught by {case.program.removeprefix('tests/')}: {case.name}: {ending}"


def attack(runner, sites, reached, changed, results, options):
    """[(fault, ending)]"""
    begun, done = time.time(), 0

    def one(site):
        nonlocal done
        ending = results.get(site) or ""
        if options.id or not ending.startswith("caught"):
            ending = ending_of(runner, site, reached, changed, options.budget)
            results.put(site, ending)
        done += 1
        if not ending.startswith("caught"):
            print(report.show(site, ending), flush=True)
        if done % 100 == 0:
            results.save()
            print(f"{done} of {len(sites)} faults tried in {time.time() - begun:.0f} s", flush=True)
        return ending

    return list(zip(sites, runner.each(one, sites)))


def read_sites(copy, wanted, folder):
    copy.configure()
    return source.scan_all(source.Sources(copy.root), copy.tree, copy.commands, wanted, folder / "sites.json")


def read_sample(options, copy, wanted, folder):
    """The faults of a sample."""
    def chosen(files):
        return pick(options, read_sites(copy, lambda name: name in files and wanted(name), folder))

    picked = source.sample(source.Sources(copy.root), options.seed, chosen, options.sample)
    return sorted(picked, key=lambda site: (site.file, site.start))


def run(options, copy, folder, picked):
    """[(fault, ending)] of the faults to try, and test cases that fail without a fault."""
    results = Results(folder, options.fresh)
    begun = time.time()
    picked = [site for site in picked if results.get(site) != "does not compile"]
    picked = copy.make(picked, results.refuse)
    compiled = copy.compiled()
    picked = [site for site in picked if site.number in compiled]
    print(f"{len(picked)} faults built in {time.time() - begun:.0f} s", flush=True)
    runner = trial.Trial(copy.folder, os.cpu_count())
    try:
        reached, changed, failing = record(runner, copy, [site.number for site in picked], options.tests,
                                           folder / "recorded.json")
        for case, ending in failing:
            print(f"FAILED without a fault: {case.program}: {case.name}: {ending}")
        endings = attack(runner, picked, reached, changed, results, options)
    finally:
        runner.close()
        results.save()
    return endings, failing


def required(options, count):
    """The share that must be caught of so many faults; 0 for a part of the faults that is no sample.
    Chance may take a sample three standard errors below the floor."""
    if options.id or options.file or options.tests or options.every:
        return 0
    return FLOOR - 3 * math.sqrt(FLOOR * (1 - FLOOR) / max(count, 1)) if options.sample else FLOOR


def conclude(options, folder, endings, failing):
    report.write_survivors(folder / "survivors", endings)
    for site, ending in endings:
        if ending.startswith("caught") and options.id:
            print(report.show(site, ending))
    caught, share = report.table(endings)
    least = required(options, len(endings)) if options.werror else 0
    print(f"{share:.1%} of {len(endings)} faults caught" + (f", {least:.1%} required" if least else ""))
    failed = len(failing) + (share < least)
    print(f"{caught} passed, {failed} failed")
    return 1 if failed else 0


def main():
    options = read_arguments()
    if options.smoke:
        held, problems = smoke.check(FOLDER / "smoke", sys.modules[__name__])
        print(*problems, f"{held} passed, {len(problems)} failed", sep="\n")
        return 1 if problems else 0
    wanted = lambda name: not options.file or any(fnmatch.fnmatch(name, glob) for glob in options.file)
    folder = FOLDER / "sample" if options.sample else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    copy = build.Build(ROOT, folder / "tree", [*build.OPTIONS, f"-Dwerror={str(options.werror).lower()}"])
    if options.sample:
        picked = read_sample(options, copy, wanted, folder)
    else:
        picked = pick(options, read_sites(copy, wanted, FOLDER))
    if options.list:
        print(*map(report.show, picked), sep="\n")
        return 0
    return conclude(options, folder, *run(options, copy, folder, picked))


if __name__ == "__main__":
    sys.exit(main())
