"""Turns a page of names (from_jax.md, from_pytorch.md) into a test of its rows.

    names.py test PAGE SOURCE      writes the C++ source of the page's test
    names.py values PAGE           says where `gives` is not what the first column gives in Python: PyTorch, or NumPy and
                                   SciPy in the place of JAX (names_values.py); rows that it cannot run are counted

A row is | their name | the C++ here | what it gives |. The C++ is an expression, or statements and an expression, that
runs inside of a traced function; under a heading `gspmd, on the host` it runs outside. What a row gives is a number, a
list of lists, or several of them with " and " between; a shape as f32[2,3] where the numbers are not the point; text;
or nothing where it is enough that the row runs. The arrays and functions that rows speak of stand in the page's first
block of C++, and again in its first block of Python.
"""
import ast
import os
import re
import sys

ROW = re.compile(r"^\|(.*)\|$")
DTYPES = ("pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "c64", "c128")


def cells(line):
    """The code in each cell of a row; `\\|` stands for a bar."""
    parts = re.split(r"(?<!\\)\|", ROW.match(line).group(1))
    return [part.strip().strip("`").strip().replace("\\|", "|") for part in parts]


def block(lines, language):
    """The first block of code in a language."""
    begin = lines.index("```" + language) + 1
    return "\n".join(lines[begin : lines.index("```", begin)])


def rows(lines):
    """(section, on the host, line number, cells) of each row."""
    section, on_host, in_table, found = "", False, False, []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            section = line.lstrip("# ")
        is_row = ROW.match(line) is not None
        if is_row and not in_table:
            on_host = "on the host" in line
        elif is_row and not line.startswith("|--"):
            row = cells(line)
            if len(row) != 3:
                sys.exit("line %d: a row has 3 cells" % number)
            found.append((section, on_host, number, row))
        in_table = is_row
    return found


def number(text):
    return ast.literal_eval(text.replace("inf", "1e999").replace("nan", "(1e999 - 1e999)"))


def dims_of(value):
    return [len(value)] + (dims_of(value[0]) if value else []) if isinstance(value, list) else []


def flat(value):
    return [x for part in value for x in flat(part)] if isinstance(value, list) else [value]


def literal(value):
    """A C++ expression of a number."""
    if isinstance(value, complex):
        return "{%r, %r}" % (value.real, value.imag)
    value = float(value)
    return "INFINITY" if value == float("inf") else "-INFINITY" if value == -float("inf") else repr(value)


def parse_gives(text):
    """Lists of what a cell says: (dtype, dims, values), values None where only the shape counts; or a text."""
    if text.startswith('"'):
        return text
    found = []
    for part in filter(None, text.split(" and ")):
        shape = re.fullmatch(r"(%s)\[([\d,]*)\]" % "|".join(DTYPES), part.strip())
        if shape:
            found.append((shape.group(1), [int(d) for d in shape.group(2).split(",") if d], None))
        else:
            value = number(part.strip())
            found.append(("", dims_of(value), flat(value)))
    return found


def expected(text):
    gives = parse_gives(text)
    if isinstance(gives, str):
        return "%s" % gives
    made = []
    for dtype, dims, values in gives:
        numbers = "{}" if values is None else "{%s}" % ", ".join(literal(v) for v in values)
        made.append('{"%s", {%s}, %s}' % (dtype, ", ".join(map(str, dims)), numbers))
    return "Values{%s}" % ", ".join(made)


def split_statements(code):
    """Statements, and the expression behind the last `;` outside of parentheses."""
    depth, last = 0, -1
    for at, c in enumerate(code):
        depth += (c in "([{") - (c in ")]}")
        if c == ";" and depth == 0:
            last = at
    return code[: last + 1], code[last + 1 :].strip()


def test_source(page):
    with open(page, encoding="utf-8") as file:
        lines = file.read().splitlines()
    given = block(lines, "cpp")
    arrays = re.findall(r"^const Array (\w+) ", given, re.MULTILINE)
    name = os.path.basename(page)
    out = ["// Made from docs/%s by docs/names.py." % name, '#include "names/row.h"', "", "namespace {", ""]
    out += ["namespace given {", "", given, "", "}  // namespace given", "using namespace given;", "", "}  // namespace"]
    last = None
    for section, on_host, line, (_, code, gives) in rows(lines):
        if section != last:
            out += ["}"] if last is not None else []
            out += ["", 'TEST_CASE("%s: %s", "[names]") {' % (name, section)]
            last = section
        statements, value = split_statements(code)
        used = [] if on_host else [a for a in arrays if re.search(r"(?<![\w.])%s\b" % a, code)]
        tensors = "".join("const Tensor %s = constant(given::%s); " % (a, a) for a in used)
        out.append("#line %d \"%s\"" % (line, name))
        out.append("  check_row(%d, %s, %s, [] { %s%s return %s(%s); });" %
                   (line, "R\"code(%s)code\"" % code, expected(gives), tensors, statements,
                    "host_leaves" if on_host else "leaves", value))
    return "\n".join(out + ["}"]) + "\n"


def main():
    verb, page = sys.argv[1:3]
    if verb == "values":
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import names_values

        with open(page, encoding="utf-8") as file:
            lines = file.read().splitlines()
        sys.exit(names_values.compare(page, block(lines, "python"), rows(lines), parse_gives))
    made = test_source(page)
    os.makedirs(os.path.dirname(sys.argv[3]), exist_ok=True)
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        file.write(made)


if __name__ == "__main__":
    main()
