# SPDX-License-Identifier: Apache-2.0
"""Reads C source well enough to check its shape: what is code, where functions begin and end."""
import os
import pathlib
import re
import subprocess
from dataclasses import dataclass

TOKEN = re.compile(r"""
    /\*.*?\*/ | //(?:\\\n|[^\n])*            # comments
  | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'  # strings, characters
""", re.VERBOSE | re.DOTALL)
DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w*)")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def project_files(root):
    """Files of the project, relative to it: tracked or new, not ignored."""
    done = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
                           "--exclude-standard"], capture_output=True)
    if done.returncode == 0:
        names = done.stdout.decode().split("\0")
        return sorted(name for name in set(names) if name and (root / name).is_file())
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in (".git", "build", "__pycache__")]
        found += [str(pathlib.Path(folder, name).relative_to(root)) for name in names]
    return sorted(found)


def c_files(root, *tops):
    """C sources and headers below the named folders."""
    return [name for name in project_files(root)
            if name.endswith((".c", ".h")) and name.split("/")[0] in tops]


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    """The text with comments blanked and strings kept; lines stay where they are."""
    return TOKEN.sub(lambda m: _blank(m.group()) if m.group()[0] == "/" else m.group(), text)


def code_of(text):
    """The text with comments, strings and preprocessor lines blanked; lines stay where they are.

    Of #if ... #else ... #endif only the first branch is kept, so that braces balance.
    """
    text = TOKEN.sub(lambda m: _blank(m.group()) if m.group()[0] == "/"
                     else m.group()[0] + _blank(m.group()[1:-1]) + m.group()[-1], text)
    out, dropped, continued = [], [], False
    for line in text.split("\n"):
        match = None if continued else DIRECTIVE.match(line)
        if match:
            word = match.group(1)
            if word in ("if", "ifdef", "ifndef"):
                dropped.append(False)
            elif word in ("else", "elif") and dropped:
                dropped[-1] = True
            elif word == "endif" and dropped:
                dropped.pop()
        directive = bool(match) or continued
        continued = directive and line.rstrip().endswith("\\")
        out.append(_blank(line) if directive or any(dropped) else line)
    return "\n".join(out)


def includes(text):
    """(line, opening mark, path) of every include."""
    text = without_comments(text)
    return [(text.count("\n", 0, match.start()) + 1, *match.groups())
            for match in INCLUDE.finditer(text)]


@dataclass(frozen=True)
class Function:
    name: str
    first_line: int
    last_line: int
    parameters: int
    body: str

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


def _closing(code, start, opening, closing):
    """Index of the mark that closes the one at start; -1 if none does."""
    depth = 0
    for index in range(start, len(code)):
        if code[index] == opening:
            depth += 1
        elif code[index] == closing:
            depth -= 1
            if depth == 0:
                return index
    return -1


def _signature(head):
    """(name, number of parameters) if the text before a brace is a function's head, else None."""
    if re.search(r"=\s*$", head) or re.search(r"\b(?:struct|union|enum)\s+\w+\s*$", head):
        return None
    position = 0
    while match := re.compile(r"\b(\w+)\s*\(").search(head, position):
        name, start = match.group(1), match.end() - 1
        end = _closing(head, start, "(", ")")
        if end < 0:
            return None
        position = end + 1
        # Annotations stand before or behind the head: __attribute__((x)), KVH_REQUIRES(role).
        if name.startswith("__") or name.isupper():
            continue
        inside = head[start + 1:end].strip()
        depth, count = 0, 0 if inside in ("", "void") else 1
        for mark in inside:
            depth += (mark in "([{") - (mark in ")]}")
            count += mark == "," and depth == 0
        return name, count
    return None


def calls(code, name):
    """Whether the code calls the function (not a member of that name)."""
    return re.search(rf"(?<![\w.>]){name}\s*\(", code) is not None


def functions(text):
    """The functions that a file defines. Raises ValueError where braces do not balance."""
    code, found, start, index = code_of(text), [], 0, 0
    while index < len(code):
        mark = code[index]
        if mark in ";}":
            start = index + 1
        elif mark == "{":
            head = code[start:index]
            if re.fullmatch(r'\s*extern\s+" "\s*', head):  # extern "C", its string blanked
                start = index + 1
            else:
                end = _closing(code, index, "{", "}")
                if end < 0:
                    raise ValueError(f"line {code.count(chr(10), 0, index) + 1}: "
                                     "this brace is never closed")
                signature = _signature(head)
                if signature:
                    lead = len(head) - len(head.lstrip())
                    found.append(Function(signature[0],
                                          code.count("\n", 0, start + lead) + 1,
                                          code.count("\n", 0, end) + 1, signature[1],
                                          code[index:end]))
                    start = end + 1
                index = end
        index += 1
    return found
