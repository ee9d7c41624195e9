# SPDX-License-Identifier: BSD-3-Clause
"""Printers of reel's types for gdb: `source PREFIX/share/reel/gdb.py`, best in ~/.gdbinit.

A Tensor and a Variable are shown with dtype, shape and elements. The printers read memory and call nothing, so that
they work in a core file too. `set print elements N` says how many elements are shown."""
import struct

import gdb
import gdb.printing

DTYPES = [("bool", "?"), ("uint8", "B"), ("int32", "i"), ("int64", "q"), ("float32", "f"), ("float64", "d"),
          ("float16", "e"), ("bfloat16", "H"), ("int8", "b"), ("int16", "h")]  # in the order of reel::DType
LIVE = 0x80  # a bit beside the kind of device


def read(address, form):
    memory = gdb.selected_inferior().read_memory(address, struct.calcsize(form))
    return struct.unpack(form, bytes(memory))


def text_of_shape(lengths):
    return f"({', '.join(map(str, lengths))}{',' if len(lengths) == 1 else ''})"


class Body:
    """What a Tensor points to."""

    def __init__(self, address, places):
        dtype, device, data, shape, strides = places[:5]
        self.dtype, self.form = DTYPES[read(address + dtype, "B")[0]]
        self.kind, self.index = read(address + device, "Bb")
        self.data, = read(address + data, "Q")
        *lengths, rank = read(address + shape, "8qQ")
        self.shape, self.strides = lengths[:rank], read(address + strides, f"{rank}q")

    def element(self, place):
        value, = read(self.data + place * struct.calcsize(self.form), self.form)
        if self.dtype == "bfloat16":
            value, = struct.unpack("f", struct.pack("I", value << 16))
        return f"{value:.9g}" if isinstance(value, float) and self.form != "d" else str(value)

    def elements(self, axis, place):
        """The text of the elements from an axis on; it stops after as many as gdb shows."""
        if axis == len(self.shape):
            self.left -= 1
            return self.element(place)
        parts = []
        for i in range(self.shape[axis]):
            if self.left <= 0:
                parts.append("...")
                break
            parts.append(self.elements(axis + 1, place + i * self.strides[axis]))
        return f"[{', '.join(parts)}]"

    def __str__(self):
        text = f"{self.dtype} {text_of_shape(self.shape)}"
        if self.kind & ~LIVE:
            return f"{text} on cuda({self.index})"
        if not self.data and 0 not in self.shape:
            return f"{text}, not computed yet"
        self.left = gdb.parameter("print elements") or 10**9
        return f"{text} {self.elements(0, 0)}"


class Value:
    """A Tensor, or a Variable with its name."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        variable = self.value.type.strip_typedefs().name != "reel::Tensor"
        try:
            places = gdb.parse_and_eval("(unsigned short[7])'reel::detail::gdb_places'")
            places = [int(places[i]) for i in range(7)]
            address = int(self.value["cell_" if variable else "body_"])
            if not variable:
                return str(Body(address, places)) if address else "undefined"
            if not address:
                return "moved from"
            pointer, size = read(address + places[6], "QQ")
            name = bytes(gdb.selected_inferior().read_memory(pointer, size)).decode(errors="replace") if size else ""
            return f'"{name}" {Body(read(address + places[5], "Q")[0], places)}'
        except (gdb.error, gdb.MemoryError, IndexError) as error:
            return f"no {'Variable' if variable else 'Tensor'}: {error}"


class Shape:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return text_of_shape([int(self.value["lengths_"][i]) for i in range(int(self.value["rank_"]))])


printers = gdb.printing.RegexpCollectionPrettyPrinter("reel")
printers.add_printer("value", "^reel::(Tensor|Variable|Buffer)$", Value)
printers.add_printer("shape", "^reel::Shape$", Shape)
gdb.printing.register_pretty_printer(gdb.current_objfile(), printers, replace=True)
