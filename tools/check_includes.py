#!/usr/bin/env python3
"""Every source reaches, through its includes, a header of ours that has each name of ours that it uses.

Builds by folder and precompiled headers hide that one does not: it compiles beside others, and not by itself.

    tools/check_includes.py [ROOT]

Prints each violation as FILE:LINE: NAME is in HEADER; exit status 1 if there are any. Names are those that one header of ours
alone declares in a namespace: classes, enumerations, functions, constants. A name that any header on the way mentions counts
as reached, so what is found is certain, and some of what is wrong is not found.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_layering  # noqa: E402

WORD = re.compile(r"[A-Za-z_]\w*")
CLASS = re.compile(r"^(?:class|struct|union|enum class|using)\s+(\w+)\b(?!.*;\s*$|\s*<)", re.MULTILINE)
FUNCTION = re.compile(r"^(?:inline |constexpr |template <[^>]*> )*[\w:][\w:<>,&* ]*[ &*>](\w+)\(", re.MULTILINE)
CONSTANT = re.compile(r"^inline constexpr [\w:<>, ]+ (k\w+)\b", re.MULTILINE)
# Behind these words a name is used, not declared; and what is no name.
USING = {"return", "else", "case", "throw", "new", "const", "goto", "typename", "template"}
KEYWORDS = {"alignas", "decltype", "sizeof", "defined"}
# Names that a base class of a library has, too.
OF_LIBRARIES = {"planner/search/integer_program.cc": {"Event"}}


def declared(text):
    """Names that a header declares in a namespace."""
    return {found[1] for pattern in (CLASS, FUNCTION, CONSTANT) for found in pattern.finditer(text)} - KEYWORDS


class Sources:
    """The C++ of a tree, without comments, literals and preprocessor lines."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        names = [name for name in check_layering.list_files(root) if check_layering.is_cpp(name)]
        whole = {name: (self.root / name).read_text(errors="replace") for name in names}
        self.texts = {name: check_layering.blank_out(text) for name, text in whole.items()}
        self.words = {name: set(WORD.findall(text)) for name, text in self.texts.items()}
        self.includes = {name: [header for _, header, quoted in check_layering.includes(text)
                                if quoted and header in self.texts] for name, text in whole.items()}
        self.homes = {}  # names, and the one header that declares them
        for name in names:
            for word in declared(self.texts[name]) if name.endswith(".h") else []:
                self.homes[word] = name if word not in self.homes else None
        self.closures = {}

    def closure(self, name):
        """The headers that a file includes, itself or through others."""
        if name not in self.closures:
            reached = self.closures[name] = set()
            left = list(self.includes[name])
            while left:
                header = left.pop()
                if header not in reached:
                    reached.add(header)
                    left += self.includes[header]
        return self.closures[name]

    def declares(self, name, word):
        """Whether a file declares a name itself, as a class, a function, a member or a variable."""
        typed = (rf"([\w>&*\].]+)\s+[&*]*{word}\s*(?=[({{\[;=,):>])"
                 rf"|(?:class|struct|using|enum|namespace)\s+(?:alignas\(\w+\)\s+)?{word}\b|[{{,]\s*{word}\s*[,}}=]")
        for found in re.finditer(typed, self.texts[name]):
            before = found[1] and found[1].strip("*&")
            if before is None or not (before in USING or before == "" or before.isdigit()):
                return True
        return False

    def violations(self):
        for name in sorted(self.texts):
            reached = self.closure(name)
            known = set().union(*(self.words[header] for header in reached))
            for word in sorted(self.words[name] - known):
                home = self.homes.get(word)
                if home in (None, name) or word in OF_LIBRARIES.get(name, ()) or self.declares(name, word):
                    continue
                found = re.search(rf"(?<![\w.>:]){word}\b", self.texts[name])
                if found:
                    yield f"{name}:{self.texts[name].count(chr(10), 0, found.start()) + 1}: {word} is in {home}"


def main(arguments):
    return check_layering.report(Sources(arguments[0] if arguments else ".").violations(), "includes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
