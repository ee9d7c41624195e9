# SPDX-License-Identifier: BSD-3-Clause
"""The list of equivalent faults, and what is printed."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Equivalent:
    file: str
    function: str
    change: str
    reason: str

    def key(self):
        return self.file, self.function, self.change


def change_of(site):
    return f"{site.original} -> {site.fault or '(nothing)'}"


def key_of(site):
    return site.file, site.function, change_of(site)


def read_equivalent(file):
    """Paragraphs: the file, the function, the change, and the reason on the lines that follow."""
    entries = []
    for paragraph in file.read_text().split("\n\n"):
        lines = [line for line in paragraph.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        if len(lines) < 4:
            raise SystemExit(f"mutate: {file.name}: an entry needs file, function, change and reason:\n{paragraph}")
        entries.append(Equivalent(lines[0], lines[1], lines[2], " ".join(lines[3:])))
    return entries


def stale(entries, sites, files):
    """Entries that no fault of the source has, among the files that were read."""
    there = {key_of(site) for site in sites}
    return [entry for entry in entries if entry.key() not in there and files(entry.file)]


def show(site, note=""):
    lines = [f"{site.number:>7}  {site.file}:{site.line}  {site.function}", f"{'':9}{change_of(site)}"]
    if note:
        lines.append(f"{'':9}{note}")
    return "\n".join(lines)


def table(results):
    """Counts by file: made, reached, caught, survived."""
    rows = {}
    for site, ending in results:
        row = rows.setdefault(site.file, [0, 0, 0, 0])
        row[0] += 1
        row[1] += ending != "not reached"
        row[2] += ending.startswith("caught")
        row[3] += not ending.startswith("caught")
    rows["all"] = [sum(column) for column in zip(*rows.values())] or [0, 0, 0, 0]
    width = max(map(len, rows))
    print(f"{'':{width}}    made reached  caught survived")
    for name, (made, reached, caught, survived) in rows.items():
        print(f"{name:{width}} {made:7} {reached:7} {caught:7} {survived:8}")


def write_survivors(folder, results):
    """A list for each file of the source."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.txt"):
        old.unlink()
    files = {}
    for site, ending in results:
        if not ending.startswith("caught"):
            files.setdefault(site.file, []).append(show(site, ending))
    for name, shown in files.items():
        (folder / (name.replace("/", "_").replace(".", "_") + ".txt")).write_text("\n".join(shown) + "\n")

