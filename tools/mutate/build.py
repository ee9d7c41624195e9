# SPDX-License-Identifier: BSD-3-Clause
"""A copy of the tree with the faults in it, built once."""
import pathlib
import re
import shutil
import subprocess

import source

OPTIONS = ["-Disa=native", "-Dcuda=disabled", "-Dsamples=false"]  # objects as those of ./dev test, which ccache has


class Build:
    def __init__(self, root, tree, options):
        self.root, self.tree, self.options = root, tree, options
        self.folder = self.tree / "build/mutate"
        self.commands = self.folder / "compile_commands.json"

    def write(self, sites):
        """Brings the copy up to date; a file whose text stays keeps its time."""
        by_file = {}
        for site in sites:
            by_file.setdefault(site.file, []).append(site)
        names = source.tracked(self.root)
        for name in names:
            text = (self.root / name).read_bytes()
            if name in by_file:
                text = source.rewrite(name, text, by_file[name])
            if name == "lib/meson.build":
                text = text.replace(b"files(\n", b"files(\n  'fault.cpp',\n", 1)
            self.put(name, text)
        for name in ("fault.hpp", "fault.cpp"):
            text = (pathlib.Path(__file__).parent / name).read_bytes()
            self.put("lib/" + name, text.replace(b"REEL_FAULT_COUNT", str(source.COUNT).encode()))
        kept = set(names) | {"lib/fault.hpp", "lib/fault.cpp"}
        for folder in ("lib", "autograd", "include", "tests"):
            for file in (self.tree / folder).rglob("*"):
                if file.is_file() and str(file.relative_to(self.tree)) not in kept:
                    file.unlink()

    def put(self, name, text):
        file = self.tree / name
        if not file.exists() or file.read_bytes() != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
            if (self.root / name).exists():
                shutil.copymode(self.root / name, file)

    def configure(self):
        """Once, and again where the options or the lists of sources have changed."""
        asked = self.folder / "asked"
        lists = sorted(name for name in source.tracked(self.root) if name.endswith("meson.build"))
        wanted = "\n".join([str(self.options), *((self.root / name).read_text() for name in lists)])
        if asked.exists() and asked.read_text() == wanted:
            return
        again = ["--reconfigure"] * self.commands.exists()
        self.write([])
        made = subprocess.run(["meson", "setup", *again, str(self.folder), str(self.tree), *self.options],
                              capture_output=True, text=True)
        if made.returncode:
            raise SystemExit(made.stdout + made.stderr)
        asked.write_text(wanted)

    def make(self, sites, refuse):
        """Builds the tests; refuse() is told of faults that do not compile. Returns those that are left."""
        for _ in range(12):
            self.write(sites)
            # Targets are listed by build.ninja, which a new test folder changes.
            subprocess.run(["ninja", "-C", str(self.folder), "build.ninja"], capture_output=True)
            made = subprocess.run(["ninja", "-C", str(self.folder), "-k", "0", *self.targets()],
                                  capture_output=True, text=True)
            if made.returncode == 0:
                return sites
            bad = self.blamed(made.stdout + made.stderr, sites)
            if not bad:
                raise SystemExit(made.stdout[-8000:] + made.stderr[-2000:])
            print(f"{len(bad)} faults do not compile", flush=True)
            refuse([site for site in sites if site.number in bad])
            sites = [site for site in sites if site.number not in bad]
        raise SystemExit("mutate: the copy does not compile")

    def targets(self):
        """The test programs, and what they start and load."""
        listed = subprocess.run(["ninja", "-C", str(self.folder), "-t", "targets", "all"], check=True,
                                capture_output=True, text=True).stdout
        # The CUDA emulator needs more addresses than a trial has.
        return sorted(set(re.findall(r"^(tests/[\w.]+): cpp_LINKER", listed, re.M)) - {"tests/test_cuda"})

    def sources_of(self, program):
        """A hash of all sources but those of other test programs."""
        own = re.compile(rf"(autograd|include|lib)/|tests/({program.removeprefix('test_')}/|.*\.hpp$|support/|sweep/table)")
        names = [name for name in source.tracked(self.root) if own.match(name)]
        return source.digest(*(part for name in names for part in (name, (self.root / name).read_bytes())))

    def blamed(self, said, sites):
        """Faults on lines that errors name; a unit's notes are read where its errors name none."""
        bad = set()
        for block in re.split(r"^FAILED: ", said, flags=re.M)[1:]:
            for kind in (" error: ", " "):
                found = set()
                for match in re.finditer(r"^(?:\.\./\.\./)?([\w/.]+):(\d+):(?:\d+:)? (.*)", block, re.M):
                    if kind in " " + match[3]:
                        found |= {site.number for site in sites
                                  if site.file == match[1] and self.covers(site, int(match[2]))}
                if found:
                    bad |= found
                    break
        return bad

    def covers(self, site, line):
        return site.line <= line <= site.line + self.lines(site)

    def lines(self, site):
        return (self.root / site.file).read_bytes()[site.start:site.end].count(b"\n")

    def compiled(self):
        """The numbers of all faults that the test programs contain."""
        return set().union(*(self.faults_of(program) for program in self.test_programs()))

    def faults_of(self, program):
        section = self.folder / "faults"
        section.unlink(missing_ok=True)
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.reel_faults",
                        "--set-section-flags", ".reel_faults=alloc", str(program), str(section)], check=True)
        content = section.read_bytes() if section.exists() else b""
        return {int.from_bytes(content[i:i + 4], "little") for i in range(0, len(content), 4)}

    def test_programs(self):
        return [self.folder / name for name in self.targets() if name.startswith("tests/test_")]

    def programs(self):
        """The test programs that contain a fault; the others test something else than the library."""
        return [program for program in self.test_programs() if self.faults_of(program)]
