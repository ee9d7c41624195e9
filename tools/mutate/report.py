# SPDX-License-Identifier: BSD-3-Clause
"""What is printed about faults."""


def change_of(site):
    return f"{site.original} -> {site.fault or '(nothing)'}"


def show(site, note=""):
    lines = [f"{site.number:>7}  {site.file}:{site.line}  {site.function}", f"{'':9}{change_of(site)}"]
    if note:
        lines.append(f"{'':9}{note}")
    return "\n".join(lines)


def module_of(file):
    parts = file.split("/")
    return "/".join(parts[:2]) if parts[0] == "lib" and len(parts) > 2 else parts[0]


def table(results):
    """Prints faults, caught faults and their share by module; returns the last two of all modules."""
    rows = {}
    for site, ending in sorted(results, key=lambda result: result[0].file):
        row = rows.setdefault(module_of(site.file), [0, 0])
        row[0] += 1
        row[1] += ending.startswith("caught")
    rows["all"] = [sum(column) for column in zip(*rows.values())] or [0, 0]
    width = max(map(len, rows))
    print(f"{'':{width}}  faults  caught  share")
    for name, (faults, caught) in rows.items():
        print(f"{name:{width}} {faults:7} {caught:7} {caught / max(faults, 1):6.1%}")
    return caught, caught / max(faults, 1)


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
