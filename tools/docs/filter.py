#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What Doxygen reads in place of a public header.

The comment above `#pragma once` becomes that of the file. A `///` comment counts for all declarations below it, up to
the next comment or empty line; inside a class, for those of one name. A comment behind a member is the member's."""
import re
import sys

DECLARATION = re.compile(r"^( *)(?!//|#|\}|try\b|public:|private:|protected:|namespace |using )\S")
SCOPE = re.compile(r"\s*(?:template.*> )?(?:struct|class|namespace|enum class)\b.*\{$")
NAME = re.compile(r"(operator\(\)|operator[^\s(]+|(?!requires|span)\b\w+)\(")


def escaped(line):
    """The line; `<functional>` in a comment is no tag of HTML."""
    before, mark, comment = line.partition("///")
    if comment.startswith("     "):  # code
        return line
    return before + mark + re.sub(r"(?<![\w`])<(\w[\w/.]*)>", r"\\<\1\\>", comment) if mark else line


class Filter:
    def __init__(self):
        self.out = []
        self.comment, self.covers, self.indent = [], None, 0  # the last comment, and the name it was used for
        self.depth = 0  # of brackets and braces inside of a declaration
        self.first = None  # where its lines begin in the output, from `template` on

    def head(self, line):
        """A line above `#pragma once`."""
        if line.startswith("// ") and "SPDX" not in line:
            if not self.out[-1].startswith("///"):
                self.out.append("/// @file")
            line = "///" + line[2:]
        self.out.append(escaped(line))

    def line(self, line):
        text = line.strip()
        code = re.sub(r'"(?:\\.|[^"\\])*"|//.*', "", line)
        if self.depth == 0 and text.startswith("///"):
            if not (self.comment and self.out[-1] == self.comment[-1]):
                self.comment, self.covers, self.first = [], None, None
                self.indent = len(line) - len(line.lstrip())
            self.comment.append(escaped(line))
            line = self.comment[-1]
        elif self.depth == 0 and (not text or text.startswith("}") or SCOPE.match(code)):
            self.comment, self.first = [], None
        elif self.depth == 0:
            self.declaration(line, code)
        outside = self.depth == 0
        if not SCOPE.match(code) or self.depth:
            self.depth = max(0, self.depth + len(re.findall(r"[({]", code)) - len(re.findall(r"[)}]", code)))
        if "= delete;" in code or line.startswith(("struct fmt::", "template <>")):
            line = ""  # deleted functions, and what belongs to fmt
            while re.match(r" *(template|requires)\b", self.out[-1]):
                self.out.pop()
        if outside and self.depth == 0:
            line = re.sub(r"(;\s+)// ", r"\1///< ", line)
        self.out.append(escaped(line))

    def declaration(self, line, code):
        """Repeats the comment before a declaration that it covers as well."""
        match, name = DECLARATION.match(line), NAME.search(code)
        if not match or not self.comment or (self.first is None and len(match[1]) != self.indent):
            return
        first = len(self.out) if self.first is None else self.first
        self.first = None if name else first
        if not name:
            return
        if self.covers is None:
            self.covers = name[1]
        elif self.indent == 0 or self.covers == name[1]:
            self.out[first:first] = self.comment


def filtered(lines):
    result, started = Filter(), False
    for line in lines:
        started = started or line.startswith("#pragma once")
        result.line(line) if started else result.head(line)
    return result.out


if __name__ == "__main__":
    print("\n".join(filtered(open(sys.argv[1]).read().splitlines())))
