# SPDX-License-Identifier: BSD-3-Clause
"""Reads one source with libclang and lists the faults that its functions can have."""
import bisect
import hashlib
import re

from clang.cindex import Config, CursorKind as K, Index, TypeKind

from rules import ARITHMETIC, COMPOUND, FUNCTORS, RELATIONS, SYMMETRIC, Site, grouped, plain

if len(K._kinds) <= 280 or K._kinds[280] is None:
    K.BUILTIN_BIT_CAST_EXPR = K(280)  # the binding of Debian 12 does not know it

Config.set_compatibility_check(False)

FUNCTIONS = {K.FUNCTION_DECL, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR, K.CONVERSION_FUNCTION, K.FUNCTION_TEMPLATE}
SCOPES = {K.NAMESPACE, K.CLASS_DECL, K.STRUCT_DECL, K.UNION_DECL, K.CLASS_TEMPLATE,
          K.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION, K.LINKAGE_SPEC, K.UNEXPOSED_DECL}
SKIPPED = {K.STATIC_ASSERT, K.CXX_UNARY_EXPR, K.CXX_TYPEID_EXPR, K.TYPE_ALIAS_DECL,
           K.TYPEDEF_DECL, K.ENUM_DECL, K.DECL_REF_EXPR, K.TYPE_REF, K.TEMPLATE_REF, K.OVERLOADED_DECL_REF}
NUMBERS = {TypeKind.BOOL, TypeKind.CHAR_U, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG,
           TypeKind.ULONGLONG, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG,
           TypeKind.LONGLONG, TypeKind.FLOAT, TypeKind.DOUBLE}
SCALARS = NUMBERS | {TypeKind.POINTER, TypeKind.ENUM, TypeKind.NULLPTR}
INSTRUCTION_SETS = {"sse4", "avx2", "avx512", "neon"}  # namespaces that are no part of a function's name
ANY_SET = re.compile(rf"\b(?:{'|'.join(sorted(INSTRUCTION_SETS))})::")


class Reader:
    def __init__(self, text, path):
        self.bytes, self.path, self.sites, self.seen = text, path, [], set()
        self.function = self.context = ""

    # --- text and cursors ---
    def text(self, start, end):
        return self.bytes[start:end].decode()

    def span(self, cursor):
        extent = cursor.extent
        return extent.start.offset, extent.end.offset

    def code(self, cursor):
        return plain(self.text(*self.span(cursor)))

    def kind(self, cursor):
        return cursor.type.get_canonical().kind

    def add(self, rule, cursor, fault, **edit):
        start, end = edit.pop("at", None) or self.span(cursor)
        original = edit.pop("original", None) or plain(self.text(start, end))
        key = (rule, start, end, fault)
        if key in self.seen or start >= end or not original or original == fault:
            return
        self.seen.add(key)
        self.sites.append(Site(rule, original, fault, start, end, function=self.function, context=self.context, **edit))

    # --- declarations ---
    def read_scope(self, cursor, names=()):
        for child in cursor.get_children():
            location = child.location.file
            if location is None or location.name != self.path:
                continue
            if child.kind in FUNCTIONS:
                self.read_function(child, names)
            elif child.kind in SCOPES:
                name = child.spelling if child.kind != K.NAMESPACE or child.spelling != "reel" else ""
                self.read_scope(child, names + ((name,) if name and name not in INSTRUCTION_SETS else ()))

    def read_function(self, cursor, names):
        body = None
        children = list(cursor.get_children())
        for child in children:
            if child.kind in (K.COMPOUND_STMT, K.CXX_TRY_STMT):
                body = child
        if body is None:
            return
        scope = names
        if cursor.semantic_parent and cursor.semantic_parent != cursor.lexical_parent:
            parent, scope = cursor.semantic_parent, []
            while parent and parent.kind != K.TRANSLATION_UNIT:
                if parent.spelling and parent.spelling not in {"reel"} | INSTRUCTION_SETS:
                    scope.insert(0, parent.spelling)
                parent = parent.semantic_parent
        self.function = "::".join([*scope, ANY_SET.sub("", cursor.displayname)])
        self.context = hashlib.sha1(self.code(cursor).encode()).hexdigest()[:12]
        if cursor.kind == K.CONSTRUCTOR:
            for child in children:
                if child.kind.is_expression() and self.span(child)[0] < self.span(body)[0]:
                    previous = self.bytes[:self.span(child)[0]].rstrip()[-1:]
                    if previous in (b"(", b"{", b","):
                        self.walk(child)
        self.walk(body)

    # --- statements ---
    def walk_children(self, cursor):
        for child in cursor.get_children():
            self.walk(child)

    def walk(self, cursor):
        kind = cursor.kind
        if kind in SKIPPED or kind.is_attribute():
            return
        visit = getattr(self, "see_" + kind.name.lower(), None)
        if visit:
            visit(cursor)
        else:
            self.walk_children(cursor)

    def see_compound_stmt(self, cursor):
        for child in cursor.get_children():
            self.drop(child)
            self.walk(child)

    def drop(self, statement):
        """A statement that only calls or assigns can be left out."""
        if not statement.kind.is_expression():
            return
        start, end = self.span(statement)
        rest = re.match(rb"\s*;", self.bytes[end:end + 80])
        code = plain(self.text(start, end))
        if not rest or code.startswith(("throw", "(void)", "static_cast<void>", "fail", "asm")):
            return
        self.add("dropped statement", statement, "", at=(start, end + rest.end()), original=code + ";",
                 wrap=("{ if (!reel_fault::on<@>()) ", " }"))

    def body_of(self, cursor, alone):
        """The body of an if or a loop; where it is all that the condition guards, dropping the
        condition is the same fault."""
        if cursor.kind == K.COMPOUND_STMT:
            statements = list(cursor.get_children())
            if alone and len(statements) == 1:
                self.walk(statements[0])
                return
        elif not alone:
            self.drop(cursor)
        self.walk(cursor)

    def condition(self, cursor, values, rule="dropped condition"):
        for value in values:
            self.add(rule, cursor, value,
                     wrap=(f"reel_fault::always<@, {value}>(static_cast<bool>(", "))"))

    def see_if_stmt(self, cursor):
        children = list(cursor.get_children())
        head = self.text(self.span(cursor)[0], self.span(children[0])[0])
        if re.fullmatch(r"if\s*\(\s*", head) and children[0].kind.is_expression():
            self.condition(children[0], ("false", "true"))
            self.walk(children[0])
        elif not re.match(r"if\s+(constexpr|consteval|!)", head):
            self.walk(children[0])
        for body in children[1:]:
            if body.kind.is_expression() or body.kind.is_statement():
                self.body_of(body, len(children) == 2)

    def see_while_stmt(self, cursor):
        children = list(cursor.get_children())
        if children[0].kind.is_expression() and self.code(children[0]) != "true":
            self.condition(children[0], ("false",))
            self.walk(children[0])
        self.body_of(children[-1], False)

    def see_for_stmt(self, cursor):
        children = list(cursor.get_children())
        for child in children[:-1]:
            # The step of a loop is left alone: nearly all its faults never end.
            between = self.text(self.span(child)[1], self.span(children[-1])[0])
            if child is children[-2] and re.match(r"\s*\)", between) and ";" not in between:
                continue
            self.walk(child)
        self.body_of(children[-1], False)

    def see_cxx_for_range_stmt(self, cursor):
        children = list(cursor.get_children())
        for child in children[:-1]:
            self.walk(child)
        self.body_of(children[-1], False)

    def see_do_stmt(self, cursor):
        children = list(cursor.get_children())
        self.body_of(children[0], False)
        self.walk(children[-1])

    def see_case_stmt(self, cursor):
        for child in list(cursor.get_children())[1:]:
            self.drop(child)
            self.walk(child)

    def see_default_stmt(self, cursor):
        for child in cursor.get_children():
            self.drop(child)
            self.walk(child)

    def see_var_decl(self, cursor):
        start, end = self.span(cursor)
        head = self.bytes[max(0, self.bytes.rfind(b";", 0, start), self.bytes.rfind(b"{", 0, start)):end]
        if re.search(rb"\bconstexpr\b", head.split(b"=")[0]):
            return
        children = [c for c in cursor.get_children() if self.span(c)[0] > cursor.location.offset]
        if "[" in cursor.type.spelling and children:  # not the bounds
            if not re.search(r"[={]", self.text(cursor.location.offset, self.span(children[-1])[0] + 1)):
                return
            children = children[-1:]
        for child in children:
            self.walk(child)

    def see_return_stmt(self, cursor):
        for child in cursor.get_children():
            if (child.kind.is_expression() and self.kind(child) == TypeKind.BOOL
                    and self.code(child) not in ("true", "false")):
                self.condition(child, ("false", "true"), "replaced result")
            self.walk(child)

    def see_lambda_expr(self, cursor):
        for child in cursor.get_children():
            if child.kind == K.COMPOUND_STMT:
                self.walk(child)

    # --- expressions ---
    def see_member_ref_expr(self, cursor):
        for child in cursor.get_children():
            if self.span(child)[0] == self.span(cursor)[0]:
                self.walk(child)

    def see_unexposed_expr(self, cursor):
        start, end = self.span(cursor)
        if not self.bytes.startswith(b"requires", start):
            self.walk_children(cursor)

    def see_conditional_operator(self, cursor):
        children = list(cursor.get_children())
        if self.code(children[0]) != "sizeof" and len(children) == 3:
            self.condition(children[0], ("false", "true"))
        self.walk_children(cursor)

    def operands(self, cursor):
        """Both operands' borders and the operator between them; None where a macro hides one."""
        children = [c for c in cursor.get_children() if not c.kind.is_reference()]
        if len(children) == 3:
            children = [children[0], children[2]]
        if len(children) != 2:
            return None
        (a, b), (c, d) = self.span(children[0]), self.span(children[1])
        start, end = self.span(cursor)
        if not start == a < b <= c < d == end:
            return None
        return (a, b, c, d), plain(self.text(b, c)), children

    def see_binary_operator(self, cursor):
        found = self.operands(cursor)
        if found:
            self.join(cursor, *found)
        self.walk_children(cursor)

    def join(self, cursor, borders, sign, children):
        a, b, c, d = borders
        left, right = grouped(plain(self.text(a, b))), grouped(plain(self.text(c, d)))
        kinds = [self.kind(child) for child in children]
        if sign in ("&&", "||"):
            drops = "true" if sign == "&&" else "false"
            for (start, end), kept in (((a, b), right), ((c, d), left)):
                self.add("logic", cursor, kept, at=(start, end), original=f"{left} {sign} {right}",
                         wrap=(f"reel_fault::always<@, {drops}>(static_cast<bool>(", "))"))
            other = "||" if sign == "&&" else "&&"
            self.ternary("logic", cursor, f"{left} {other} {right}")
            return
        if sign not in RELATIONS and sign not in ARITHMETIC:
            return
        scalar = all(kind in SCALARS for kind in kinds)
        record = TypeKind.RECORD in kinds
        if record and sign in ARITHMETIC and "string" in cursor.type.get_canonical().spelling:
            return
        faults = [("relation" if sign in RELATIONS else "arithmetic", other, FUNCTORS[other], f"{left} {other} {right}")
                  for other in RELATIONS.get(sign) or ARITHMETIC[sign]]
        if TypeKind.POINTER in kinds and sign in RELATIONS:
            faults = faults[:1]
        if sign in ARITHMETIC and (kinds[1] == TypeKind.POINTER or record and self.kind(cursor) in NUMBERS):
            faults = []  # pointers and iterators have no other operator
        if sign in ("-", "/") and left != right:
            faults.append(("swapped operands", "", FUNCTORS[sign] + "Swapped", f"{right} {sign} {left}"))
        for rule, _, functor, fault in faults:
            if scalar:
                self.add(rule, cursor, fault, operator=(b, c, FUNCTORS[sign], functor))
            elif sign not in ("<<", ">>"):
                self.ternary(rule, cursor, fault)

    def ternary(self, rule, cursor, fault):
        if "[" in fault and ("]{" in fault or "] {" in fault or "](" in fault):
            return  # two lambdas have two types
        self.add(rule, cursor, fault, wrap=(f"(reel_fault::on<@>() ? ({fault}) : (", "))"))

    def see_compound_assignment_operator(self, cursor):
        found = self.operands(cursor)
        if found and found[1] in COMPOUND and "string" not in cursor.type.get_canonical().spelling:
            (a, b, c, d), sign, _ = found
            self.ternary("arithmetic", cursor,
                         f"{plain(self.text(a, b))} {COMPOUND[sign]} {plain(self.text(c, d))}")
        self.walk_children(cursor)

    def see_unary_operator(self, cursor):
        start, end = self.span(cursor)
        children = list(cursor.get_children())
        sign = self.text(start, start + 1)
        if len(children) == 1 and self.span(children[0])[0] > start:
            inner = self.code(children[0])
            if sign == "!":
                self.ternary("logic", cursor, f"static_cast<bool>({inner})")
            elif sign == "-" and self.text(start, start + 2) != "--" and not inner[0].isdigit():
                self.ternary("arithmetic", cursor, inner)
        self.walk_children(cursor)

    def see_integer_literal(self, cursor):
        code = self.code(cursor)
        if re.fullmatch(r"(\d[\d']*|0[xX][\da-fA-F']+)[uUlLzZ]*", code):
            self.add("off by one", cursor, f"{code} + 1", wrap=("reel_fault::more<@>(", ")"))

    def see_floating_literal(self, cursor):
        code = self.code(cursor)
        if re.fullmatch(r"[\d.][\d.eE+\-']*[fF]?", code):
            self.add("off by one", cursor, f"{code} + 1", wrap=("reel_fault::more<@>(", ")"))

    def see_cxx_bool_literal_expr(self, cursor):
        code = self.code(cursor)
        if code in ("true", "false"):
            other = "false" if code == "true" else "true"
            self.add("other constant", cursor, other, wrap=(f"reel_fault::always<@, {other}>(", ")"))

    def see_call_expr(self, cursor):
        if cursor.spelling.startswith("operator"):
            found = self.operands(cursor)
            if found and found[1] in COMPOUND:
                self.see_compound_assignment_operator(cursor)
                return
            if found:
                self.join(cursor, *found)
        else:
            self.swap_arguments(cursor)
        self.walk_children(cursor)

    def swap_arguments(self, cursor):
        arguments = list(cursor.get_arguments())
        if len(arguments) < 2 or cursor.spelling in SYMMETRIC:
            return
        for x, y in zip(arguments, arguments[1:]):
            (a, b), (c, d) = self.span(x), self.span(y)
            if not a < b <= c < d or plain(self.text(b, c)) != "," or not self.alike(x, y):
                continue
            left, right = plain(self.text(a, b)), plain(self.text(c, d))
            if left == right:
                continue
            begin, end = self.span(cursor)
            whole = lambda p, q: plain(f"{self.text(begin, a)}{p}, {q}{self.text(d, end)}")
            self.add("swapped arguments", cursor, whole(right, left), at=(a, b), original=whole(left, right),
                     wrap=(f"(reel_fault::on<@>() ? {right} : ", ")"),
                     second=(c, d, (f"(reel_fault::on<@>() ? {left} : ", ")")))

    def alike(self, x, y):
        """Of one type, and so that each can be evaluated in the other's place."""
        kinds = self.kind(x), self.kind(y)
        types = [c.type.get_canonical().spelling for c in (x, y)]
        if TypeKind.POINTER not in kinds:
            types = [spelling.replace("const ", "") for spelling in types]
        if types[0] != types[1]:
            return False
        if all(kind in NUMBERS or kind == TypeKind.POINTER for kind in kinds):
            return True
        return all(c.kind in (K.DECL_REF_EXPR, K.MEMBER_REF_EXPR) for c in (x, y)) and kinds[0] == TypeKind.RECORD


def parse(path, arguments):
    return Index.create().parse(path, args=arguments)


def scan(path, text, unit):
    """All sites of one file of a parsed unit."""
    reader = Reader(text, path)
    reader.read_scope(unit.cursor)
    ends = [match.start() for match in re.finditer(b"\n", text)]
    for site in reader.sites:
        site.line = bisect.bisect_left(ends, site.start) + 1
    return reader.sites
