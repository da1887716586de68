#!/usr/bin/env python3
"""Checks the shape of the sources: check_layering.py [--only CHECK,CHECK] [ROOT].

  layering   who may include whom (ARROWS below)
  vendor     headers of oneDNN, CUDA, MPI, NCCL only in the folder that wraps them
  headers    every header has #pragma once; x.cc includes its own x.h first, so x.h is proven self-contained
  standard   a header includes the standard headers whose names it uses, itself or through headers of ours: precompiled
             headers would hide that it does not
  operators  nothing but graph/ops and kernels asks which operator it is: facts stand in its row
  entries    the top level holds the agreed entries and nothing else
  files      at most 600 lines in a file
  functions  at most 80 lines in a function
  parameters at most five parameters of a function, constructor, lambda or type of functions; signatures that a vendor's
             library dictates apart
  codes      codes of a status that say nothing of whom to blame only with a category (graph/support/error_category.h)
  marks      no left-over marks
  classes    no two classes of a namespace have one name, wherever they are (the linker would take either's functions)
  names      no type or file is called Something-Manager, -Helper and the like
  paths      files and folders that comments and READMEs name are there (placeholders: foo..., NAME)
  licences   every package of tools/packages.sh has its row, with a licence, in third_party/README.md

Prints each violation as file:line: what. Exit status: 0 none, 1 some, 2 wrong usage.
"""

import argparse
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

FILE_LIMIT = 600
FUNCTION_LIMIT = 80
PARAMETER_LIMIT = 5
DICTATED = r"(cuda|cudnn|cublas|nccl|MPI_)[A-Z]\w*|mmap|mmap64|__libc_start_main"  # functions whose signatures are a library's

ENTRIES = {"CMakeLists.txt", "README.md", "planner", "graph", "runtime", "cost_model", "proto", "tools", "tests",
           "third_party"}

# (files, what they may include), as prefixes of paths from the root; the longest prefix that fits a file counts.
GRAPH_BASE = ["proto/", "graph/support/", "graph/tensor", "graph/box", "graph/reduction", "graph/sharding_rule",
              "graph/part_view"]
BACKEND_TOP = ["graph/", "proto/", "runtime/support/", "runtime/backend/"]
ARROWS = [
    ("proto/", ["proto/"]),
    ("graph/support/", ["graph/support/"]),
    ("graph/tensor", GRAPH_BASE),
    ("graph/box", GRAPH_BASE),
    ("graph/reduction", GRAPH_BASE),
    ("graph/sharding_rule", GRAPH_BASE),
    ("graph/part_view", GRAPH_BASE),
    ("graph/ops/", GRAPH_BASE + ["graph/ops/"]),
    ("graph/collective/", ["graph/support/", "graph/box", "graph/reduction", "graph/collective/", "proto/"]),
    ("graph/", ["graph/", "proto/"]),
    ("cost_model/", ["cost_model/", "graph/", "proto/"]),
    ("planner/", ["planner/", "cost_model/", "graph/", "proto/"]),
    ("runtime/support/", ["runtime/support/", "graph/", "proto/"]),
    ("runtime/lowering/", ["runtime/lowering/", "graph/", "proto/"]),
    ("runtime/backend/", BACKEND_TOP),
    ("runtime/comm/", ["runtime/comm/", "runtime/backend/backend.h", "runtime/support/", "graph/", "proto/"]),
    ("runtime/executor/", ["runtime/executor/", "runtime/lowering/", "runtime/backend/", "runtime/comm/",
                           "runtime/support/", "graph/", "proto/"]),
    ("runtime/profiler/", ["runtime/profiler/", "runtime/backend/", "runtime/comm/", "runtime/support/", "graph/",
                           "proto/"]),
    ("runtime/", ["runtime/", "graph/", "proto/"]),
    ("tools/", [""]),
    ("tests/", [""]),
]
# (files, what they may not include although ARROWS would let them).
SOURCES_OF_GRAPHS = ["graph/zoo/", "graph/model/", "graph/onnx/"]
SPLIT = ["graph/parallel/", "graph/collective/", "graph/task/", "graph/partition/", "graph/verify/"]
CUTS = [
    ("graph/", ["graph/training/"] + SOURCES_OF_GRAPHS + SPLIT, ["graph/training/"] + SOURCES_OF_GRAPHS + SPLIT),
    ("graph/training/", SOURCES_OF_GRAPHS + SPLIT, []),
    ("graph/zoo/", ["graph/training/", "graph/model/", "graph/onnx/"] + SPLIT, []),
    ("graph/model/", SPLIT, []),
    ("graph/onnx/", SPLIT, []),
    ("graph/parallel/", SOURCES_OF_GRAPHS + ["graph/task/", "graph/partition/", "graph/verify/"], []),
    ("graph/task/", SOURCES_OF_GRAPHS + ["graph/parallel/", "graph/partition/", "graph/verify/"], []),
    ("graph/partition/", SOURCES_OF_GRAPHS + ["graph/verify/"], []),
    # The checks are derived from the rules alone; only what joins both halves knows Partition.
    ("graph/verify/", SOURCES_OF_GRAPHS + ["graph/partition/"], ["graph/verify/plan_verifier"]),
    ("tools/workflow/", ["tools/cli/"], []),
]
# What the backends share; beyond it, no backend and no communicator includes its neighbours.
SHARED = ("runtime/backend/host/", "runtime/backend/reference/kernels.h")
SOURCES_OF_OURS = ("proto/", "graph/", "cost_model/", "planner/", "runtime/", "tools/", "tests/")

# (included header, folders that may).
VENDORS = [
    (r"(oneapi/)?dnnl", ["runtime/backend/cpu/"]),
    (r"(cuda|cudnn|cublas|cupti|nvrtc|nvtx|curand)", ["runtime/backend/cuda/", "runtime/comm/nccl/",
                                                           "tests/testing/nccl_on_host/"]),
    (r"mpi\.h", ["runtime/comm/mpi/"]),
    (r"nccl", ["runtime/comm/nccl/", "tests/testing/nccl_on_host/"]),
    (r"openssl/", ["graph/support/", "runtime/support/"]),
]

BAD_WORDS = r"(Manager|Helper|Utils?|Handler|Context|Impl2|V2)"


def list_files(root):
    """Paths from the root of all files under version control (of all files, where there is none)."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, check=True).stdout.decode()
        names = [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(("build", ".", "__pycache__"))]
            names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted(name for name in set(names) if (pathlib.Path(root) / name).is_file())


def is_cpp(name):
    return name.endswith((".cc", ".h", ".cu", ".cuh"))


def includes(text):
    """(line, header, quoted) of each #include."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if found:
            yield number, found[2], found[1] == '"'


def check_layering(name, text):
    rules = [row for row in ARROWS if name.startswith(row[0])]
    if not rules or not is_cpp(name):
        return
    folder, allowed = max(rules, key=lambda row: len(row[0]))
    for number, header, quoted in includes(text):
        if not quoted:
            if header.startswith(SOURCES_OF_OURS):
                yield number, f'<{header}> is ours: write "{header}"'
            continue
        if not header.startswith(SOURCES_OF_OURS):
            if os.path.exists(os.path.join(os.path.dirname(name), header)) or "/" not in header:
                yield number, f'"{header}": write the path from the root'
            continue
        if header.startswith(("tools/", "tests/")) and not name.startswith(("tools/", "tests/")):
            yield number, f'"{header}": nothing includes tools or tests'
        elif not any(header.startswith(prefix) for prefix in allowed):
            yield number, f'"{header}": {folder} may include only {", ".join(allowed)}'
        for files, forbidden, but in CUTS:
            cut = name.startswith(files) and not name.startswith(tuple(but)) and header.startswith(tuple(forbidden))
            if cut:
                yield number, f'"{header}": {files} may not include {", ".join(forbidden)}'
        sibling = re.match(r"(runtime/(?:backend|comm)/\w+/)", header)
        own = re.match(r"(runtime/(?:backend|comm)/)(\w+/)", name)
        if sibling and own and header.startswith(own[1]) and not header.startswith((own[0],) + SHARED):
            yield number, f'"{header}": {own[0]} may not include its neighbours'


def check_vendor(name, text):
    if not is_cpp(name):
        return
    for number, header, _ in includes(text):
        for pattern, folders in VENDORS:
            if re.match(pattern, header) and not name.startswith(tuple(folders)):
                yield number, f"{header}: only {', '.join(folders)} may include it"


def check_headers(name, text, names):
    if name.endswith((".h", ".cuh")):
        if not re.search(r"^#pragma once$", text, re.MULTILINE):
            yield 1, "no #pragma once"
    own = re.sub(r"\.(cc|cu)$", ".h", name)
    if own != name and own in names:
        first = next(includes(text), (1, "nothing", True))
        if first[1] != own:
            yield first[0], f'includes {first[1]} first; its own header "{own}" comes first'


# Standard headers, any of which declares a name that headers of ours use with std:: (size_t: without it, too).
STANDARD = {name: (name,) for name in ("span", "optional", "vector", "array", "map", "set", "deque", "mutex", "atomic",
                                       "variant", "tuple", "string", "thread", "condition_variable")}
STANDARD |= {"function": ("functional",), "unique_ptr": ("memory",), "shared_ptr": ("memory",), "byte": ("cstddef",),
             "string_view": ("string_view", "string"), "pair": ("utility", "map"), "nullopt": ("optional",),
             "size_t": ("cstddef", "cstring", "cstdlib", "string", "memory", "functional")}


class StandardHeaders:
    """The standard headers that each header of ours includes, itself or through others of ours."""

    def __init__(self, texts):
        self.includes = {name: list(includes(text)) for name, text in texts.items() if name.endswith(".h")}
        self.known = {}

    def of(self, name):
        if name not in self.known:
            self.known[name] = set()  # while it is being looked at
            for _, header, quoted in self.includes[name]:
                if not quoted:
                    self.known[name].add(header)
                elif header in self.includes:
                    self.known[name] |= self.of(header)
        return self.known[name]


def check_standard(name, text, headers):
    if not name.endswith(".h"):
        return
    for found in re.finditer(r"\bstd::(\w+)|(?<![\w:])(size_t)\b", blank_out(text)):
        wanted = STANDARD.get(found[1] or found[2], ())
        if wanted and headers.of(name).isdisjoint(wanted):
            yield text.count("\n", 0, found.start()) + 1, f"uses {found[0]} without #include <{wanted[0]}>"
            return


def check_files(name, text):
    if name.endswith((".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".proto")):
        lines = text.count("\n")
        if lines > FILE_LIMIT:
            yield lines, f"{lines} lines, the limit is {FILE_LIMIT}"


def blank_out(text):
    """The text with comments, literals and preprocessor lines replaced by spaces; line breaks stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        re.DOTALL | re.MULTILINE)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def matching_brace(text, start):
    depth = 0
    for found in re.finditer(r"[{}]", text[start:]):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return start + found.start()
    return len(text) - 1


def functions(text):
    """(line of the head, lines, head) of each function body at namespace or class level."""
    text = blank_out(text)
    head, at = 0, 0
    while True:
        found = re.compile(r"[{};]").search(text, at)
        if not found:
            return
        at = found.end()
        if found[0] != "{":
            head = at
            continue
        words = text[head:found.start()]
        plain = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", words))
        scope = re.search(r"\b(namespace|class|struct|union|extern)\b", re.sub(r"\(.*\)", "", plain, flags=re.DOTALL))
        value = "=" in re.sub(r"\(.*?\)|operator\s*[^\s(]+", "", plain, flags=re.DOTALL)
        if scope and not re.search(r"\)\s*(const|noexcept|override|final|->.*)*\s*$", plain):
            head = at
            continue
        end = matching_brace(text, found.start())
        at = end + 1
        following = text[at:].lstrip()[:1]
        if following in (",", "{") and "(" in words:  # A member's initialiser; the body is still to come.
            continue
        if "(" in words and not value:
            first = head + re.match(r"\s*((public|private|protected)\s*:\s*)*", words).end()
            line = text.count("\n", 0, first) + 1
            yield line, text.count("\n", first, end) + 1, " ".join(words.split())
        head = at


def check_functions(name, text):
    if not is_cpp(name):
        return
    for line, lines, head in functions(text):
        if lines > FUNCTION_LIMIT:
            yield line, f"a function of {lines} lines, the limit is {FUNCTION_LIMIT}: {head[:60]}"


def closing_bracket(text, start):
    """Where the bracket at `start` is closed."""
    depth = 0
    for found in re.compile(r"[()\[\]{}]").finditer(text, start):
        depth += 1 if found[0] in "([{" else -1
        if depth == 0:
            return found.start()
    return len(text) - 1


def count_parameters(words):
    """Parameters of a list without its parentheses; commas of template arguments and of defaults separate none."""
    depth, count = 0, 0 if words.strip() in ("", "void") else 1
    for found in re.finditer(r"[(\[{]|(?<=\w)\s*<|[)\]}]|(?<![-=])>|,", words):
        mark = found[0].strip()
        if mark in ("(", "[", "{", "<"):
            depth += 1
        elif mark == ",":
            count += depth == 0
        else:
            depth -= 1
    return count


def scopes(text):
    """(place of the brace, place of its end) of each namespace, class, struct and union."""
    head = 0
    for found in re.finditer(r"[{};]", text):
        words = text[head:found.start()] if found[0] == "{" else ""
        for _ in range(4):
            words = re.sub(r"<[^<>]*>|\([^()]*\)", "", words)
        if re.search(r"\b(namespace|class|struct|union|extern)\b", words) and "=" not in words:
            yield found.start(), matching_brace(text, found.start())
        head = found.end()


def is_declared_in(text, start, found_scopes):
    """Whether the list at `start` stands directly in a namespace or class, and is no initialiser there."""
    first = max((scope for scope, end in found_scopes if scope < start < end), default=-1)
    at, head = first + 1, first + 1
    for found in re.compile(r"[{;(]").finditer(text, first + 1, start):
        if found.start() < at:
            continue
        at = found.end()
        if found[0] == ";":
            head = at
            continue
        end = closing_bracket(text, found.start())
        if end > start:
            return False
        at = end + 1
        if found[0] == "{" and not re.match(r"\s*[,{]", text[at:at + 80]):
            head = at
    words = text[head:start]
    plain = re.sub(r"operator\s*[^\s\w(]+", "operator", words)
    for _ in range(4):
        plain = re.sub(r"<[^<>]*>|\([^()]*\)", "@", plain)
    return not re.search(r"=|@\s*:[^:]|\b[A-Z][A-Z_]+\s*$", plain)


def parameter_lists(text):
    """(line, parameters, name) of each list of more than PARAMETER_LIMIT that is declared."""
    text = blank_out(text)
    found_scopes = None
    for found in re.finditer(r"\(", text):
        start = found.start()
        end = closing_bracket(text, start)
        if text.count(",", start, end) < PARAMETER_LIMIT:
            continue
        count = count_parameters(text[start + 1:end])
        if count <= PARAMETER_LIMIT:
            continue
        before = text[max(0, start - 400):start]
        is_lambda = re.search(r"\](\s*<[^<>]*>)?\s*$", before) and re.match(
            r"\s*(\{|->|mutable\b|noexcept\b)", text[end + 1:end + 80])
        is_type = re.search(r"function(_ref)?<[\w:<>*&\s]*$|\(\*\s*\w*\)\s*$", before)
        if not is_lambda and not is_type:
            found_scopes = found_scopes or list(scopes(text))
            if not is_declared_in(text, start, found_scopes):
                continue
        name = re.search(r"\.(\w+)\s*=\s*\[[^\]]*\]\s*$" if is_lambda else r"(\w+)\s*$", before)
        yield text.count("\n", 0, start) + 1, count, name[1] if name else "a lambda" if is_lambda else "a type"


def check_parameters(name, text):
    if not is_cpp(name):
        return
    for line, count, function in parameter_lists(text):
        if not re.fullmatch(DICTATED, function):
            yield line, f"{function}: {count} parameters, the limit is {PARAMETER_LIMIT}; a struct with a meaning takes them"


def check_codes(name, text):
    if not is_cpp(name) or name.startswith(("tests/", "graph/support/error_category.")):
        return
    codes = "ResourceExhausted|FailedPrecondition|OutOfRange|Cancelled"
    for found in re.finditer(rf"absl::({codes})Error\(|absl::Status\([\w.()]*code\(\),", blank_out(text)):
        yield text.count("\n", 0, found.start()) + 1, (
            f"{found[0]} carries no category: take what graph/support/error_category.h has")


def check_marks(name, text):
    if not name.endswith((".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".proto", ".txt", ".cmake")):
        return
    for number, line in enumerate(text.splitlines(), 1):
        if re.search("TO" + "DO|FIX" + "ME|XX" + "X|HA" + "CK", line):
            yield number, f"a left-over mark: {line.strip()[:60]}"


def check_names(name, text):
    if not is_cpp(name):
        return
    stem = pathlib.Path(name).stem
    if re.search(r"(^|_)(manager|helpers?|utils?|handler|context)(_|$)", stem):
        yield 1, f"a file called {stem}: say what it does"
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(rf"\s*(?:class|struct|using)\s+(\w*{BAD_WORDS})\b(?!.*;\s*$)", line)
        if found:
            yield number, f"a type called {found[1]}: say what it does"


def check_entries(names):
    for entry in sorted({name.split("/")[0] for name in names}):
        if entry not in ENTRIES and not entry.startswith("."):
            yield f"{entry}:1: not one of the agreed top-level entries"


COMMENTS_OF_CPP = re.compile(
    r'R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\''
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
COMMENTS_OF_SCRIPTS = re.compile(
    r'(?P<comment>"""(?:[^"]|"(?!""))*"""|(?:^|(?<=\s))#[^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
    re.DOTALL)


def comments(name, text):
    """(line, text) of each comment; of each docstring, too; a README is one comment."""
    if name.endswith(".md"):
        yield 1, text
        return
    pattern = COMMENTS_OF_CPP if is_cpp(name) or name.endswith(".proto") else COMMENTS_OF_SCRIPTS
    for found in pattern.finditer(text):
        if found["comment"]:
            yield text.count("\n", 0, found.start()) + 1, found["comment"]


def spellings(word):
    """graph/ops/foo.{h,cc} is two paths."""
    braces = re.search(r"\{([^{}]*)\}", word)
    if not braces:
        return [word]
    return [path for choice in braces[1].split(",")
            for path in spellings(word[:braces.start()] + choice + word[braces.end():])]


class Tree:
    """What paths may name: files, their folders, files by the end of their path; programs by their source's."""

    def __init__(self, names):
        self.folders = {"/".join(parts[:end]) for parts in (name.split("/") for name in names)
                        for end in range(1, len(parts))}
        self.tops = {folder for folder in self.folders if "/" not in folder and not folder.startswith(".")}
        self.ends = {"/".join(parts[start:]) for parts in (name.split("/") for name in names)
                     for start in range(len(parts))}

    def is_path_of_ours(self, word):
        if re.search(r"(^|[/_-])(foo|[a-z]\.|[A-Z]{2,})", word.replace("README", "")) or ".pb." in word:
            return False
        return word.split("/")[0] in self.tops and "/" in word or re.search(r"\.(cc|h|cu|cuh|py|sh|proto|cmake)$", word)

    def has(self, path):
        path = path.rstrip("/")
        if "*" in path:
            return any(fnmatch.fnmatchcase(end, path) for end in self.ends)
        return path in self.folders or any(path + end in self.ends for end in ("", ".cc", ".h", ".py"))


def check_paths(name, text, tree):
    for line, comment in comments(name, text):
        for found in re.finditer(r"(?<![\w./<~$:*-])[\w*-][\w.{},*/-]*", comment):
            for path in spellings(found[0].rstrip(".,-")):
                if tree.is_path_of_ours(path) and not tree.has(path):
                    yield line + comment.count("\n", 0, found.start()), f"{path} is named, and is not there"


TABLE = "graph/ops/ops.h"  # THE table of operators
ASKERS = ("graph/", "cost_model/", "planner/", "runtime/", "tools/")
# What may name operators: the rows, kernels, and what makes graphs of them.
KNOWERS = ("graph/ops/", "graph/onnx/", "graph/zoo/", "runtime/backend/reference/", "runtime/backend/cpu/",
           "runtime/backend/cuda/")


def rows_of(table):
    """Names of the operators' types."""
    found = re.search(r"\bOpAttrs\s*=\s*OneOf<([^<>]*)>", blank_out(table))
    return re.findall(r"\w+", found[1]) if found else []


def check_operators(name, text, rows):
    if not is_cpp(name) or not rows or not name.startswith(ASKERS) or name.startswith(KNOWERS):
        return
    row = rf"\b(?:{'|'.join(rows)})\b"
    questions = [
        rf"\b(?:holds_alternative|get_if|get|is_same_v|is_same|same_as|derived_from)\s*<[^<>;]*{row}",
        rf"{row}\s*::\s*kName\b",
        rf"\(\s*(?:const\s+)?{row}\s*&|,\s*(?:const\s+)?{row}\s*&",
        r"\bNameOf\([^();]*attrs\)\s*[!=]=|[!=]=\s*NameOf\([^();]*attrs\)",
        r"\bswitch\s*\([^;{]*attrs\.index\(\)|attrs\.index\(\)\s*[!=]=",
    ]
    blank = blank_out(text)
    for found in re.finditer("|".join(questions), blank):
        line = blank.count("\n", 0, found.start()) + 1
        yield line, f"asks which operator it is ({' '.join(found[0].split())}): state a fact in the row instead"


DEFINED = re.compile(r"(?:class|struct|union|enum class)\s+(?:alignas\(\d+\)\s+)?(\w+)\b(?!.*;)(?!\s*(?:::|<))")


def classes(text):
    """(line, namespace, name) of each class that is defined in a namespace which has a name."""
    spaces = []
    for number, line in enumerate(text.splitlines(), 1):
        opened = re.match(r"(?:inline )?namespace ?([\w:]*) ?{", line)
        if opened:
            spaces.append(opened[1])
        elif re.match(r"}\s*// namespace", line) and spaces:
            spaces.pop()
        defined = DEFINED.match(line)
        if defined and "" not in spaces:
            yield number, "::".join(spaces), defined[1]


def check_classes(texts):
    first = {}
    for name, text in texts.items():
        for line, space, defined in classes(text) if is_cpp(name) else []:
            place = first.setdefault((space, defined), f"{name}:{line}")
            if place != f"{name}:{line}":
                yield f"{name}:{line}: {defined} is another class at {place}"


PACKAGES, LICENCES = "tools/packages.sh", "third_party/README.md"


def check_licences(root, names):
    if PACKAGES not in names:
        return
    rows = (pathlib.Path(root) / LICENCES).read_text().splitlines() if LICENCES in names else []
    cells = [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows]
    licensed = {name for row in cells if len(row) == 5 and row[3] for name in re.findall(r"`([^`]+)`", row[1])}
    for number, line in enumerate((pathlib.Path(root) / PACKAGES).read_text().splitlines(), 1):
        found = re.fullmatch(r'\s*"([^"|]+)\|[^"]*"', line)
        if found and found[1] not in licensed:
            yield f"{PACKAGES}:{number}: {found[1]} has no row with a licence in {LICENCES}"


CHECKS = {"layering": check_layering, "vendor": check_vendor, "headers": check_headers, "files": check_files,
          "functions": check_functions, "parameters": check_parameters, "codes": check_codes, "marks": check_marks,
          "names": check_names, "paths": check_paths}


def violations(root, wanted):
    names = list_files(root)
    if "entries" in wanted:
        yield from check_entries(names)
    if "licences" in wanted:
        yield from check_licences(root, names)
    known = set(names)
    tree = Tree(names)
    rows = rows_of((pathlib.Path(root) / TABLE).read_text()) if TABLE in known else []
    texts = {name: (pathlib.Path(root) / name).read_text(errors="replace") for name in names
             if not name.startswith("third_party/") and (
                 is_cpp(name) or name.endswith((".py", ".sh", ".proto", ".txt", ".cmake", ".md")))}
    if "classes" in wanted:
        yield from check_classes(texts)
    standard = StandardHeaders(texts)
    for name, text in texts.items():
        for check in wanted:
            if check == "headers":
                found = check_headers(name, text, known)
            elif check == "standard":
                found = check_standard(name, text, standard)
            elif check == "paths":
                found = check_paths(name, text, tree)
            elif check == "operators":
                found = check_operators(name, text, rows)
            elif check in CHECKS:
                found = CHECKS[check](name, text)
            else:
                continue
            for line, what in found:
                yield f"{name}:{line}: {what}"


def report(found, checks):
    """Prints violations and how many there are; the exit status."""
    count = 0
    for line in found:
        print(line)
        count += 1
    print(f"{count} violations ({checks})")
    return 1 if count else 0


def main(arguments):
    every = list(CHECKS) + ["classes", "standard", "operators", "entries", "licences"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(every), help="checks to run, with commas")
    parser.add_argument("root", nargs="?", default=".")
    options = parser.parse_args(arguments)
    wanted = options.only.split(",")
    unknown = [check for check in wanted if check not in every]
    if unknown:
        parser.error(f"unknown checks {', '.join(unknown)}; there are {', '.join(every)}")
    return report(violations(options.root, wanted), options.only)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
