# SPDX-License-Identifier: BSD-3-Clause
"""What operators become, and the place of one fault."""
import re
from dataclasses import dataclass

RELATIONS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("*",), "&": ("|",), "|": ("&",),
              "^": ("&",), "<<": (">>",), ">>": ("<<",)}
COMPOUND = {"+=": "-=", "-=": "+=", "*=": "+=", "/=": "*=", "&=": "|=", "|=": "&=", "^=": "|=", "<<=": ">>=",
            ">>=": "<<=", "%=": "+="}
FUNCTORS = {"<": "Less", "<=": "LessEqual", ">": "Greater", ">=": "GreaterEqual", "==": "Equal", "!=": "NotEqual",
            "+": "Add", "-": "Subtract", "*": "Multiply", "/": "Divide", "%": "Remainder", "&": "And", "|": "Or",
            "^": "Xor", "<<": "Left", ">>": "Right"}
SYMMETRIC = {"max", "min", "swap", "std::max", "std::min", "std::swap", "equal", "same", "alike"}
COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.S)


@dataclass
class Site:
    """A fault that can be made: what the source reads, what it becomes, and how the copy is edited.

    `wrap` is text before and after [start, end), `@` in it the fault's number; `operator` instead
    names operands' borders and functors of a scalar operator, which all its faults share."""
    rule: str
    original: str
    fault: str
    start: int
    end: int
    wrap: tuple = ()
    operator: tuple = ()
    second: tuple = ()  # of swapped arguments: start, end, wrap
    function: str = ""
    context: str = ""  # hash of the function's text
    file: str = ""
    line: int = 0
    occurrence: int = 0  # among equal faults of the function
    number: int = 0


def plain(text):
    """Code on one line, without comments."""
    return " ".join(COMMENT.sub(lambda match: match[1] or " ", text).split())


def grouped(text):
    """An operand in parentheses, where it may need them."""
    return f"({text})" if re.search(r" [-+*/%&|^<>=!?]+ ", text) else text
