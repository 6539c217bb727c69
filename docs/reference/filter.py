"""Shows public headers to Doxygen: `filter.py INCLUDE SHOWN` writes each of INCLUDE under its whole path into SHOWN, with
its plain comments as documentation. Lines keep their numbers, so that warnings name the header's own.

A comment documents the declaration under it and overloads that follow; one that begins with `---` all declarations
up to the next blank line or comment; one at the end of a line what that line declares; an enumerator without one has
its enum's. The comment at the head of the file describes the header, and every header is a page. Left out: namespace detail, private members, and what the
language says already (defaulted and deleted members, friends, destructors without a comment).
"""
import re
import sys
from pathlib import Path

SILENT = re.compile(r"^\s*(friend\b.*;|.*=\s*(default|delete);|~\w+\(\);|virtual ~\w+\(\)[^;]*;|\w+\(\w+&&\) noexcept;|\w+& operator=\(\w+&&\) noexcept;)\s*$")
SEVERAL = re.compile(r"^\s*([\w:]+(?:<[\w:]+>)?)\s+(\w+(?:\s*=\s*(?:[\w:.+-]+|\{\}))?(?:,\s*\w+(?:\s*=\s*(?:[\w:.+-]+|\{\}))?)+);\s*$")
NAME = re.compile(r"(operator\W+|\w+)\(")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'')


def escaped(text):
    """The text without meaning for Doxygen, but for what stands between backticks."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([\\@<>&#*~])", r"\\\1", parts[i])
    return "`".join(parts)


def split_comment(line):
    """(code, comment or None) of one line."""
    blanked = STRING.sub(lambda m: '"' + "_" * (len(m.group()) - 2) + '"', line)
    at = blanked.find("//")
    if at < 0:
        return line, None
    return line[:at], line[at + 2:].strip()


def as_documentation(texts):
    """The lines of one comment as `///` lines; indented ones are code."""
    lines, in_code = [], False
    for text in texts:
        is_code = text.startswith("   ")
        if is_code and not in_code and lines:
            lines[-1] += " \\code{.cpp}"
        if in_code and not is_code:
            lines[-1] += " \\endcode"
        in_code = is_code
        lines.append("/// " + (text.strip() if is_code else escaped(re.sub(r"^ ?(--- )?", "", text))))
    if in_code:
        lines[-1] += " \\endcode"
    return lines


class Filter:
    def __init__(self, lines, page):
        self.lines = lines
        self.page = page
        self.out = list(lines)
        self.scopes = ["file"]  # file, namespace, hidden, class, enum, body
        self.statement = ""     # code of the declaration so far
        self.parens = 0
        self.comment = []       # lines of the comment above, not yet used
        self.cover = None       # text that documents the next declaration as well
        self.is_section = False  # whether it documents all of them
        self.name = ""          # of the latest function
        self.covers = []        # of the scopes around
        self.description = []   # comments that describe the header, each a list of lines
        self.declared = False

    def run(self):
        for i, line in enumerate(self.lines):
            stripped = line.strip()
            if stripped.startswith("//") and not self.statement.strip():
                self.comment.append(i)
            elif not stripped:
                self.blank_line()
            elif stripped.startswith("GSPMD_FIELDS("):  # a macro without a semicolon
                self.out[i] = ""
            elif stripped.startswith("#") or (i and self.lines[i - 1].endswith("\\")):
                self.preprocessor(i, stripped)
            else:
                self.code(i)
        self.head()
        return "\n".join(self.out) + "\n"

    def texts(self, indices):
        return [self.lines[i].strip()[2:] for i in indices]

    def head(self):
        """The header is a group, which has a page with all of its symbols."""
        if not self.description or self.description[0][0] > 2:
            sys.stderr.write("%s: no comment at its head says what it is for\n" % self.page)
            return
        group = self.page.replace("/", "_").replace(".", "_")
        self.out[0] = "/** \\defgroup %s %s" % (group, self.page)
        for count, block in enumerate(self.description):
            texts = [text[4:] for text in as_documentation(self.texts(block))]
            for i, text in zip(block, texts):
                self.out[i] = text
            if count:
                self.out[block[0] - 1] = "/** \\addtogroup " + group
            self.out[block[-1]] += " */"
        # Inside of the namespace, because what is around a namespace is not told to its members.
        begin, end = 0, len(self.out) - 1
        if "namespace gspmd {" in self.lines:
            begin, end = self.lines.index("namespace gspmd {"), self.lines.index("}  // namespace gspmd")
        else:
            begin = self.description[0][-1] + 1
            self.out.append("")
            end += 1
        begin = max(begin, self.description[-1][-1] + 1)
        self.out[begin] += "/** \\addtogroup %s */ /** @{ */" % group
        self.out[end] = "/** @} */" + self.out[end]

    def blank_line(self):
        if self.comment and not self.declared:
            self.description.append(self.comment)
        self.comment, self.cover = [], None

    def use_comment(self):
        """The comment above becomes the documentation of what follows."""
        if not self.comment:
            return
        for i, text in zip(self.comment, as_documentation(self.texts(self.comment))):
            self.out[i] = text if self.visible() else ""
        self.cover = " ".join(escaped(re.sub(r"^ ?(--- )?", "", t)) for t in self.texts(self.comment))
        self.is_section = self.lines[self.comment[0]].strip().startswith("// ---")
        self.comment = []

    def visible(self):
        return "hidden" not in self.scopes and self.scopes[-1] != "body"

    def preprocessor(self, i, stripped):
        if stripped.startswith("#define"):
            had_comment = bool(self.comment)
            self.use_comment()
            code, comment = split_comment(self.lines[i])
            if comment:
                self.out[i] = code + " ///< " + escaped(comment)
            elif self.cover and self.is_section and not had_comment:
                self.out[i] = code + " ///< " + self.cover
        elif not stripped.startswith("#include") and not self.comment:
            self.cover = None

    def code(self, i):
        line = self.lines[i]
        code, comment = split_comment(line)
        begins = not self.statement.strip()
        hidden_before = not self.visible()
        scope = self.scopes[-1]
        depth = len(self.scopes)
        if begins and re.match(r"^\s*(public|private|protected):", code):
            self.access(i, code)
            return
        if begins:
            had_comment = bool(self.comment)
            self.use_comment()
            if re.match(r"^\s*namespace\b", code):
                self.cover = None
            elif self.covered(code) and not had_comment and not comment:
                if scope in ("namespace", "class", "file"):
                    self.out[i] = "/** %s */ %s" % (self.cover, line)
        if not comment and SILENT.match(code) and begins and scope == "class":
            self.out[i] = ""
        several = SEVERAL.match(code) if begins and scope == "class" and self.visible() else None
        if several:
            self.fields(i, several, comment, had_comment)
            return
        name = NAME.search(code)
        if begins and name:
            self.name = name.group(1)
        enum_text = self.cover
        self.scan(code)
        if scope == "enum" or (len(self.scopes) > depth and self.scopes[-1] == "enum") or \
                re.match(r"^\s*enum\b.*}", code):
            self.enumerators(i, scope == "enum", code, comment, enum_text)
        elif comment is not None:
            self.trailing(i, code, comment, depth)
        if scope == "file" and not code.startswith("namespace") or hidden_before and not self.visible():
            self.out[i] = ""
        if re.search(r"\w", code) and not re.match(r"^\s*namespace\b", code):
            self.declared = True

    def fields(self, i, match, comment, had_comment):
        """`int a, b;` as `int a; int b;`, each with the documentation of both."""
        text = escaped(comment) if comment else self.cover if had_comment or self.is_section else None
        own = "/** %s */ " % text if text else ""
        names = match.group(2).split(",")
        fields = ["%s%s %s;" % (own, match.group(1), name.strip()) for name in names]
        if had_comment and not comment:  # its lines stand above the first already
            fields[0] = fields[0][len(own):]
        self.out[i] = " ".join(fields)

    def covered(self, code):
        """Whether the comment of an earlier declaration serves this one too."""
        name = NAME.search(code)
        same = name is not None and name.group(1) == self.name
        return self.cover and (self.is_section or same) and not code.strip().startswith("}") and \
            not SILENT.match(code)

    def access(self, i, code):
        if self.scopes[-1] == "hidden_part":
            self.scopes[-1] = "class"
        self.cover = None
        self.comment = []

    def trailing(self, i, code, comment, depth):
        if not self.visible() or code.strip() == "}" and comment.startswith("namespace"):
            self.out[i] = code
            return
        before = self.out[i][:self.out[i].rfind("//" + self.lines[i].split("//", 1)[1])] \
            if "//" in self.lines[i] else self.out[i]
        if len(self.scopes) > depth and self.scopes[-1] == "class":
            self.out[i] = "/** %s */ %s" % (escaped(comment), before)
            return
        if not self.statement.strip():
            self.out[i] = before + "///< " + escaped(comment)

    def enumerators(self, i, inside, code, comment, enum_text):
        text = escaped(comment) if comment else (enum_text if not inside else self.covers[-1])
        own = self.out[i][:len(self.out[i]) - len(self.lines[i])]  # documentation put before it
        if comment and not inside and not enum_text:
            own = "/** %s */ " % text
        head, body, tail = "", code, ""
        if not inside:
            head, body = code[:code.index("{") + 1], code[code.index("{") + 1:]
        if "}" in body:
            tail = body[body.index("}"):]
            body = body[:body.index("}")]
        if not text:
            return
        body = re.sub(r"(\w+(?:\s*=\s*[^,]+)?)\s*(,|$)", r"\1 /**< %s */\2" % text.replace("\\", "\\\\"),
                      body.rstrip()) if body.strip() else body
        self.out[i] = own + head + body + tail

    def scan(self, code):
        blanked = STRING.sub("0", code)
        for at, c in enumerate(blanked):
            if c in "([":
                self.parens += 1
            elif c in ")]":
                self.parens -= 1
            if self.parens > 0:
                self.statement += c
            elif c == "{":
                self.scopes.append(self.kind())
                self.covers.append(self.cover)
                if self.scopes[-1] != "body":
                    self.statement, self.cover = "", None
            elif c == "}":
                kind = self.scopes.pop()
                self.cover = self.covers.pop()
                rest = blanked[at + 1:].strip()
                if kind != "body" or not rest.startswith((";", ",", "=")):
                    self.statement = ""
                if kind in ("class", "namespace", "hidden"):
                    self.cover = None
                if kind == "enum":
                    self.cover = None
            elif self.scopes[-1] == "body":
                continue
            elif c == ";":
                self.statement = ""
            else:
                self.statement += c
        if self.statement.strip():
            self.statement += " "

    def kind(self):
        text = self.statement.strip()
        if self.scopes[-1] == "body":
            return "body"
        if text.startswith("namespace"):
            return "hidden" if "detail" in text else "namespace"
        if re.match(r"^enum\b", text):
            return "enum"
        if re.search(r"\bfmt::formatter<", text):
            return "hidden"
        if re.match(r"^(template\s*<.*>\s*)?(requires .*)?(class|struct|union)\b", text) and "=" not in \
                re.sub(r"<[^{]*>", "", text):
            return "class"
        return "body"


def main():
    root, shown = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    for header in root.rglob("*.h"):
        page = str(header.relative_to(root))
        to = shown / header.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(Filter(header.read_text("utf-8").splitlines(), page).run(), "utf-8")


main()
