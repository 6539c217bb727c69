"""Cuts a lesson into its page.

    pages.py write SOURCE PROGRAM     runs the program and writes the page, SOURCE with .md for .cpp
    pages.py check SOURCE PROGRAM     runs the program; fails where it fails or the page differs

Lines of the source that begin with `//!` are the page's text, Markdown; everything between is shown as code, nothing is
left out. What lesson::show prints stands behind the block of code that holds the call. Pages follow each other by
the names of their files.
"""
import difflib
import glob
import os
import re
import subprocess
import sys
import textwrap


def outputs(program):
    """{line of the source: what was printed there}."""
    run = subprocess.run([program], env=dict(os.environ, GSPMD_LESSON_MARKS="1"), capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit("%s failed (%d)\n%s" % (program, run.returncode, run.stderr))
    printed = {}
    for piece in run.stdout.split("\x1e")[1:]:
        line, text = piece.split("\n", 1)
        printed.setdefault(int(line), []).append(text.rstrip("\n"))
    return {line: "\n".join(texts) for line, texts in printed.items()}


def blocks(lines):
    """(is text, first line number, lines) of each run of lines of one kind."""
    found = []
    for number, line in enumerate(lines, 1):
        is_text = line.startswith("//!")
        if not found or found[-1][0] != is_text:
            found.append((is_text, number, []))
        found[-1][2].append(line)
    return found


def code_block(lines):
    code = textwrap.dedent("\n".join(lines)).strip("\n")
    return ["```cpp", code, "```", ""] if code.strip() else []


def title(path):
    with open(path, encoding="utf-8") as file:
        return re.match(r"//! # (.*)", file.readline()).group(1)


def page(source, program):
    with open(source, encoding="utf-8") as file:
        lines = file.read().splitlines()
    printed = outputs(program)
    name = os.path.basename(source)
    out = ["<!-- Cut from %s by scripts/tutorial. -->" % name, ""]
    for is_text, first, block in blocks(lines):
        if is_text:
            out += [re.sub(r"^//! ?", "", line) for line in block] + [""]
            continue
        out += code_block(block)
        shown = [printed[n] for n in sorted(printed) if first <= n < first + len(block)]
        if shown:
            out += ["Output:", "", "```text"] + "\n".join(shown).split("\n") + ["```", ""]
    lessons = sorted(glob.glob(os.path.join(os.path.dirname(source), "[0-9]*.cpp")))
    at = lessons.index(source)
    out += ["---", "", "The program is [%s](%s)." % (name, name)]
    if at + 1 < len(lessons):
        following = lessons[at + 1]
        out[-1] += " Next: [%s](%s)." % (title(following), os.path.basename(following)[:-4] + ".md")
    return "\n".join(line.rstrip() for line in out) + "\n"


def main():
    verb, source, program = sys.argv[1], os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
    target = source[:-4] + ".md"
    made = page(source, program)
    if verb == "write":
        with open(target, "w", encoding="utf-8") as file:
            file.write(made)
        return
    with open(os.path.join(os.path.dirname(source), "README.md"), encoding="utf-8") as file:
        if "(%s)" % os.path.basename(target) not in file.read():
            sys.exit("README.md does not name %s" % os.path.basename(target))
    committed = ""
    if os.path.exists(target):
        with open(target, encoding="utf-8") as file:
            committed = file.read()
    if made != committed:
        diff = difflib.unified_diff(committed.splitlines(), made.splitlines(), "committed", "from the run", lineterm="")
        sys.exit("%s is not what the run gives; scripts/tutorial writes it\n%s" % (target, "\n".join(diff)))


main()
