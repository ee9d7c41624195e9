# SPDX-License-Identifier: BSD-3-Clause
"""The faults of the source tree: which there are, which are chosen, and the copy that contains them."""
import dataclasses
import hashlib
import itertools
import json
import multiprocessing
import os
import pathlib
import re
import shlex
import subprocess

import rules
import scan

COUNT = 1 << 22  # numbers of faults; a number is a hash, so that it is the same in every copy of the tree
ROOTS = ("lib/", "autograd/")
LEFT_OUT = {"lib/assemble.cpp", "lib/bench/compare.cpp", "lib/cpu/blas.cpp",  # tables; benchmarks; other libraries
            "lib/ops/samples.cpp", "lib/ops/samples.hpp"}  # what tests call ops with
INCLUDE = re.compile(rb'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)


def digest(*parts):
    return hashlib.sha1("\0".join(map(str, parts)).encode()).hexdigest()


def tracked(root):
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split("\n")
    return sorted(name for name in names if name and (root / name).is_file())


class Sources:
    """The text of the tree's C++ files and what they include of each other."""

    def __init__(self, root):
        self.root = root
        self.text = {name: (root / name).read_bytes() for name in tracked(root) if name.endswith((".cpp", ".hpp"))}
        self.includes = {name: self.named(text) for name, text in self.text.items()}

    def named(self, text):
        spelled = (word.decode() for word in INCLUDE.findall(text))
        return [name for name in ("include/" + word if word.startswith("reel/") else word for word in spelled)
                if name in self.text]

    def closure(self, name):
        seen, left = set(), [name]
        while left:
            found = left.pop()
            if found not in seen:
                seen.add(found)
                left += self.includes[found]
        return seen


# --- scanning ---
def arguments_of(unit, root, tree):
    """What libclang needs of a compile command, with the include directories of the original tree."""
    words, kept = shlex.split(unit["command"]), []
    for word, following in zip(words, words[1:] + [""]):
        if word in ("-isystem", "-include"):
            kept += [word, following]
        elif word.startswith("-I"):
            folder = os.path.normpath(os.path.join(unit["directory"], word[2:]))
            inside = os.path.relpath(folder, tree)
            kept.append(f"-I{folder if inside.startswith('..') else root / inside}")
        elif word.startswith(("-isystem", "-D", "-std=", "-f", "-m")):
            kept.append(word)
    resources = subprocess.run(["clang", "-print-resource-dir"], check=True, capture_output=True, text=True).stdout
    return [*kept, "-resource-dir", resources.strip()]


def scan_unit(job):
    root, name, files, texts, arguments = job
    unit = scan.parse(str(root / name), arguments)
    errors = [str(found) for found in unit.diagnostics if found.severity >= 4]
    if errors:
        raise SystemExit(f"mutate: {name} cannot be read: {errors[0]}")
    sites = []
    for file, text in zip(files, texts):
        # Headers are known to libclang by the path that the include directories give them.
        spelled = next((str(found.include) for found in unit.get_includes()
                        if os.path.normpath(str(found.include)) == str(root / file)), str(root / file))
        for site in scan.scan(spelled, text, unit):
            site.file = file
            sites.append(site)
    return name, [dataclasses.asdict(site) for site in sites]


def scan_all(sources, tree, commands, wanted, cache_file):
    """The sites of all wanted files. A header is read in the first unit that includes it."""
    units = {}
    for unit in json.loads(commands.read_text()):
        name = os.path.relpath(os.path.join(unit["directory"], unit["file"]), tree)
        if name.startswith(ROOTS):
            units.setdefault(name, unit)
    closures = {name: sources.closure(name) for name in sorted(units) if name in sources.text}
    owner = {}
    for name, closure in closures.items():
        for file in [name, *sorted(closure)]:
            if file.startswith(ROOTS) and file not in LEFT_OUT:
                owner.setdefault(file, name)
    owner.update({name: name for name in closures})
    files = {name: [file for file in sorted(owner) if owner[file] == name and file not in LEFT_OUT]
             for name in closures}
    cache = json.loads(cache_file.read_text()) if cache_file.exists() else {}
    tool = digest(*(pathlib.Path(module.__file__).read_text() for module in (scan, rules)))
    jobs, keys, found = [], {}, {}
    for name in closures:
        if not any(map(wanted, files[name])):
            continue
        arguments = arguments_of(units[name], sources.root, tree)
        keys[name] = digest(tool, arguments, files[name], *(sources.text[file] for file in sorted(closures[name])))
        if cache.get(name, {}).get("key") == keys[name]:
            found[name] = cache[name]["sites"]
        else:
            jobs.append((sources.root, name, files[name], [sources.text[file] for file in files[name]], arguments))
    if jobs:
        print(f"reading {len(jobs)} of {len(keys)} sources with libclang", flush=True)
        with multiprocessing.Pool(os.cpu_count()) as pool:
            for name, sites in pool.imap_unordered(scan_unit, jobs):
                found[name] = sites
        cache.update({name: {"key": keys[name], "sites": found[name]} for name in keys})
        cache_file.write_text(json.dumps(cache))
    return number([rules.Site(**site) for name in sorted(found) for site in found[name]
                   if wanted(site["file"]) and site["file"] not in LEFT_OUT and "samples(" not in site["function"]])


def number(sites):
    """Gives each site its occurrence and its number, which edits elsewhere do not change."""
    sites.sort(key=lambda site: (site.file, site.start, -site.end, site.rule, site.fault))
    counts = {}
    for site in sites:
        key = (site.file, site.function, site.rule, site.original, site.fault)
        site.occurrence = counts[key] = counts.get(key, 0) + 1
        site.number = int(digest(*key, site.occurrence)[:12], 16) % COUNT
    return sites


# --- choosing ---
def choose(sites):
    """Of a function with n faults about n^0.6 / 2 and at least two, each rule in turn."""
    functions = {}
    for site in sites:
        functions.setdefault((site.file, site.function), []).append(site)
    chosen = []
    for all_of_one in functions.values():
        rules = {}
        for site in sorted(all_of_one, key=lambda site: digest("choose", site.number)):
            rules.setdefault(site.rule, []).append(site)
        in_turn = [site for row in itertools.zip_longest(*rules.values()) for site in row if site]
        chosen += in_turn[:max(2, round(len(all_of_one) ** 0.6 / 2))]
    return chosen


def distinct(sites):
    """Without those whose number another one has."""
    return list({site.number: site for site in reversed(sites)}.values())[::-1]


def sample(sources, seed, scanned, count):
    """So many chosen faults of few files, so that few sources need to be compiled again: files in an
    order of their own for each seed, at most 6 faults of one file. scanned() reads some files."""
    units = [sources.closure(name) for name in sources.text if name.endswith(".cpp")]
    few = [name for name in sources.text if name.startswith(ROOTS) and name not in LEFT_OUT
           and sum(name in unit for unit in units) <= 6]
    order = sorted(few, key=lambda name: digest(seed, name))
    taken = []
    while order and len(taken) < count:
        files, order = order[:8], order[8:]
        by_file = {}
        for site in sorted(scanned(files), key=lambda site: digest(seed, site.number)):
            by_file.setdefault(site.file, []).append(site)
        for file in files:
            taken += by_file.get(file, [])[:6]
    return taken[:count]


# --- writing ---
def edits_of(sites):
    """[(start, end, opening, closing, sign's place)], for all sites of one file."""
    units, operators = [], {}
    for site in sites:
        fill = lambda text: text.replace("@", str(site.number))
        if site.operator:
            operators.setdefault((site.start, site.end, *site.operator[:3]), []).append(
                f"reel_fault::Fault<{site.number}, reel_fault::{site.operator[3]}>")
            continue
        units.append((site.start, site.end, fill(site.wrap[0]), fill(site.wrap[1]), None))
        if site.second:
            start, end, wrap = site.second
            units.append((start, end, fill(wrap[0]), fill(wrap[1]), None))
    for (start, end, left, right, functor), faults in operators.items():
        units.append((start, end, f"reel_fault::binary<reel_fault::{functor}, {', '.join(faults)}>(", ")",
                      (left, right)))
    return units


def rewrite(name, text, sites):
    """The file with all sites switched in; lines keep their numbers. As a system header it gets no warnings."""
    inserts = []  # (position, closing before opening, nesting, text)
    cuts = {}
    for order, (start, end, opening, closing, sign) in enumerate(sorted(edits_of(sites), key=lambda u: (u[0], -u[1]))):
        inserts.append((start, 1, order, opening))
        inserts.append((end, 0, -order, closing))
        if sign:
            between = text[sign[0]:sign[1]].decode()
            cuts[sign[0]] = (sign[1], re.sub(r"[^\n]", "", between) + ", ")
    out, at = [], 0
    for position, _, _, inserted in sorted(inserts, key=lambda i: i[:3]):
        out += [cut(text, at, position, cuts), inserted.encode()]
        at = position
    out.append(cut(text, at, len(text), cuts))
    new = b"".join(out)
    assert new.startswith(b"//"), "the first line is a comment"
    head = f'#include "lib/fault.hpp"\n# 2 "../../{name}" 3'
    return head.encode() + new[new.index(b"\n"):]


def cut(text, start, end, cuts):
    """text[start:end], operators in it replaced by commas."""
    out = b""
    for left in sorted(place for place in cuts if start <= place < end):
        right, comma = cuts[left]
        out += text[start:left] + comma.encode()
        start = right
    return out + text[start:end]
