#!/usr/bin/env python3
"""What the compiler made of the cuda backend's own kernels, as a table in Markdown, without a GPU.

    tests/bench/kernel_table.py build/runtime/backend/cuda/CMakeFiles/partita_cuda_backend.dir/*.cu.o
    tests/bench/kernel_table.py --json before.json OBJECTS              # figures to compare with later
    tests/bench/kernel_table.py --before before.json --changed OBJECTS  # "before -> now", only what is not the same

Columns: registers; bytes of stack; instructions that read or write local memory (spills, and arrays that are indexed);
bytes of static shared memory (from sm_90 on 1,024 are the system's); instructions; of the hot loop, which is that which moves
the most bytes of global memory of the loops that have no such loop inside: instructions, bytes that a thread moves in one
pass by its instructions' widths, calls (of divisions and the like), and, where the kernel's definition says how many bytes an
element takes, those bytes and the loop's instructions for each element.

Loops are natural loops of the control flow. A loop with branches counts the instructions of all of them. A kernel that is made
for a type of index, int or long, is compared with one that knew none; one of elements that was not there before, with another of
the same functor.
Needs cuobjdump and nvdisasm (NVIDIA's toolkit, or `pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`) and c++filt.
Exit status: 0 printed, 1 nothing to print or a tool that is missing or fails, 2 wrong usage.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

NUMBER_TYPES = ["float32", "float16", "bfloat16"]
MOVE_TYPES = {"float": 4, "int": 4, "double": 8, "long": 8, "unsigned long": 8}
# Bytes that an element's definition reads and writes, once each; what several elements share (a bias, statistics of a row) not
# counted. Of kernels whose elements all take as many.
ELEMENT_BYTES = {
    "FillElement": (0, 4), "ReluElement": (4, 4), "ReluGradientElement": (8, 4), "UnaryElement": (4, 4),
    "UnaryGradientElement": (8, 4), "ScaleElement": (4, 4), "BinaryElement": (8, 4), "BinaryInOrderElement": (8, 4),
    "BiasElement": (4, 4), "CopyElement": (4, 4), "GatherElement": (4, 4), "ScatterElement": (4, 4),
    "NormalizeElement": (4, 4), "NormalizeGradientElement": (8, 4), "DropoutElement": (4, 4), "DropoutRunElement": (4, 4),
    "EmbeddingElement": (4, 4), "SoftmaxElement": (4, 4), "SoftmaxGradientElement": (8, 4), "LogSoftmaxElement": (4, 4),
    "LogSoftmaxGradientElement": (8, 4), "CrossEntropyGradientElement": (4, 4), "SgdElement": (12, 8),
    "AdamElement": (16, 12), "LayerNormElement": (4, 4), "LayerNormGradientElement": (8, 4), "ScaleReduction": (4, 0),
    "ChannelSumReduction": (4, 0), "MomentsReduction": (4, 0), "RowStatisticsReduction": (4, 0), "RowMaxReduction": (4, 0),
}
ACCESS_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def readable(name):
    """'ReadThenWrite<ReluElement>' of a demangled name with namespaces and parameters."""
    name = re.sub(r"\(anonymous namespace\)::|partita::|_GLOBAL__N__\w*::", "", name)
    name = re.sub(r"\((?:NumberType|anonymous)\)(\d)", lambda number: NUMBER_TYPES[int(number[1])], name)
    name = re.sub(r"\((?:int|bool|unsigned int|long)\)(\d+)", r"\1", name)
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:at]
            break
    return re.sub(r"^void ", "", name).strip().replace("> >", ">>")


def by_functor(name):
    """The functor of a kernel of elements, of which there is one kernel or another; None of other kernels."""
    found = re.match(r"(?:ForEach|ReadThenWrite|ReadThenWriteVectors)<(\w+)[,>]", name)
    return found and found[1]


def without_index(name):
    """The name of a kernel of any type of index."""
    return re.sub(r", (?:int|long)>$", ">", name)


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.split("\n")))


def resources_of(text):
    """Mangled name -> registers, stack, shared memory, from `cuobjdump --dump-resource-usage`."""
    found = {}
    for name, line in re.findall(r"Function (\S+):\n\s*(REG:.*)", text):
        values = dict(re.findall(r"(\w+)(?:\[\d+\])?:(\d+)", line))
        found[name] = {"registers": int(values["REG"]), "stack": int(values["STACK"]), "shared": int(values["SHARED"])}
    return found


class Instruction:
    def __init__(self, address, predicate, text):
        self.address = address
        self.conditional = bool(predicate) or bool(re.match(r"BRA\S* !?U?P\d", text))
        self.opcode = text.split()[0]
        self.text = text
        target = re.search(r"0x([0-9a-f]+)\s*$", text)
        self.target = int(target[1], 16) if target and self.opcode.split(".")[0] in ("BRA", "BSSY") else None

    def kind(self):
        return self.opcode.split(".")[0]

    def bytes(self):
        """Of global memory, by one thread."""
        if self.kind() not in ("LDG", "STG", "LD", "ST"):
            return 0
        return next((ACCESS_BYTES[part] for part in self.opcode.split(".") if part in ACCESS_BYTES), 4)


def functions_of(text):
    """Mangled name -> instructions, from `cuobjdump -sass`."""
    found = {}
    for part in re.split(r"(?m)^\s*Function : ", text)[1:]:
        name = part.split(None, 1)[0]
        lines = re.findall(r"/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][^;]*?)\s*;", part)
        found[name] = [Instruction(int(address, 16), predicate, code) for address, predicate, code in lines]
    return found


def successors_of(code):
    """For each instruction, the indices of those that may follow it."""
    index = {instruction.address: at for at, instruction in enumerate(code)}
    meeting = {}  # barrier -> where threads that wait for each other go on
    result = []
    for at, instruction in enumerate(code):
        following = [at + 1] if at + 1 < len(code) else []
        kind = instruction.kind()
        if kind == "BSSY":
            meeting[instruction.text.split()[1].rstrip(",")] = instruction.target
        if kind == "BRA" and instruction.target in index:
            target = [index[instruction.target]]
            following = target + (following if instruction.conditional else [])
        elif kind == "BSYNC":
            target = meeting.get(instruction.text.split()[1])
            following = ([index[target]] if target in index else following) + (following if instruction.conditional else [])
        elif kind in ("EXIT", "RET", "BRX", "JMX") and not instruction.conditional:
            following = []
        result.append(following)
    return result


def reachable_blocks(code, successors):
    """Basic blocks that can be reached from the start, in reverse postorder: first index -> successors' first indices."""
    leaders = {0}
    for at, following in enumerate(successors):
        if following != [at + 1]:
            leaders.update(following)
            leaders.add(at + 1)
    leaders = sorted(leader for leader in leaders if leader < len(code))
    last = {leader: (leaders[k + 1] if k + 1 < len(leaders) else len(code)) - 1 for k, leader in enumerate(leaders)}
    order, seen, work = [], {0}, [(0, iter(successors[last[0]]))]
    while work:
        block, rest = work[-1]
        following = next((b for b in rest if b not in seen), None)
        if following is None:
            order.append(block)
            work.pop()
        else:
            seen.add(following)
            work.append((following, iter(successors[last[following]])))
    return {block: successors[last[block]] for block in reversed(order)}, last


def dominators_of(blocks):
    everywhere = set(blocks)
    before = {block: [] for block in blocks}
    for block, following in blocks.items():
        for other in following:
            before[other].append(block)
    result = {block: everywhere for block in blocks}
    result[0] = {0}
    changed = True
    while changed:
        changed = False
        for block in blocks:
            if block == 0:
                continue
            both = set.intersection(*(result[other] for other in before[block])) | {block}
            if both != result[block]:
                result[block], changed = both, True
    return result, before


def loops_of(code):
    """Natural loops: first block -> blocks; and each block's end."""
    blocks, last = reachable_blocks(code, successors_of(code))
    dominators, before = dominators_of(blocks)
    loops = {}
    for block, following in blocks.items():
        for header in following:
            if header not in dominators[block]:
                continue
            body, work = loops.setdefault(header, {header}), [block]
            while work:
                other = work.pop()
                if other not in body:
                    body.add(other)
                    work.extend(before[other])
    return loops, last


def moved_bytes(code):
    return sum(instruction.bytes() for instruction in code)


def hot_loop(code):
    """The instructions of the loop that moves the most bytes, of those that have no loop inside that moves any; nothing where
    none does."""
    if not code:
        return None
    loops, last = loops_of(code)
    moving = {header: found for header, body in loops.items()
              if moved_bytes(found := [code[at] for block in sorted(body) for at in range(block, last[block] + 1)])}
    inner = [found for header, found in moving.items()
             if not any(other != header and other in loops[header] for other in moving)]
    return max(inner, key=moved_bytes, default=None)


def figures_of(resources, code):
    figures = dict(resources)
    figures["local"] = sum(i.kind() in ("LDL", "STL") for i in code)
    figures["instructions"] = sum(i.kind() != "NOP" for i in code)
    loop = hot_loop(code)
    if loop is not None:
        figures["loop"] = sum(i.kind() != "NOP" for i in loop)
        figures["loop_bytes"] = moved_bytes(loop)
        figures["loop_written"] = moved_bytes(i for i in loop if i.kind() in ("STG", "ST"))
        figures["loop_calls"] = sum(i.kind() == "CALL" for i in loop)
    return figures


def read_and_written(name):
    """Bytes of an element by the kernel's definition; None where elements differ."""
    convert = re.match(r"(?:ConvertVectors|TransposeTiles)<(\w+), (\w+)", name)
    if convert:
        return tuple(4 if kind == "float32" else 2 for kind in convert.groups())
    functor = re.match(r"\w+<(\w+)", name)
    return ELEMENT_BYTES.get(functor[1]) if functor else None


def element_bytes(name):
    size = read_and_written(name)
    return None if size is None else sum(size)


def per_element(name, figures):
    """Elements of a pass are counted by what it writes, which elements do not share; of reductions by what it reads."""
    size = read_and_written(name)
    if size is None or not figures.get("loop_bytes"):
        return None
    written = figures["loop_written"]
    elements = written / size[1] if size[1] else (figures["loop_bytes"] - written) / size[0]
    return round(figures["loop"] / elements, 1) if elements else None


COLUMNS = [
    ("registers", lambda name, f: f["registers"]), ("stack", lambda name, f: f["stack"]),
    ("local accesses", lambda name, f: f["local"]), ("shared", lambda name, f: f["shared"]),
    ("instructions", lambda name, f: f["instructions"]), ("of the hot loop", lambda name, f: f.get("loop")),
    ("its bytes", lambda name, f: f.get("loop_bytes")), ("its calls", lambda name, f: f.get("loop_calls")),
    ("bytes of an element", lambda name, f: element_bytes(name)), ("instructions of an element", per_element),
]


def table(kernels, before, only_changed):
    """Lines of Markdown. `before`: figures by name, or None."""
    old_names = {without_index(name): name for name in before or {}}
    old_functors = {by_functor(name): name for name in sorted(before or {}) if by_functor(name)}  # the widest counts
    lines = ["| kernel | " + " | ".join(title for title, _ in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    shown = lambda value: "-" if value is None else str(value)
    for name in sorted(kernels):
        old_name = name if name in (before or {}) else old_names.get(without_index(name), old_functors.get(by_functor(name)))
        cells, changed = [], before is not None and old_name is None
        for _, value in COLUMNS:
            now = shown(value(name, kernels[name]))
            then = shown(value(old_name, before[old_name])) if old_name else now
            changed = changed or then != now
            cells.append(now if then == now else f"{then} -> {now}")
        if changed or not only_changed:
            note = " (not there before)" if before is not None and old_name is None else ""
            if old_name and without_index(old_name) != without_index(name):
                note = f" (before: {old_name})"
            lines.append(f"| {name}{note} | " + " | ".join(cells) + " |")
    return lines


def dump(tool, flags, path):
    done = subprocess.run([tool, *flags, str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{tool} cannot read {path}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def kernels_of(tool, architecture, paths):
    kernels = {}
    for path in paths:
        resources = resources_of(dump(tool, ["-arch", architecture, "--dump-resource-usage"], path))
        codes = functions_of(dump(tool, ["-arch", architecture, "-sass"], path))
        names = demangled(list(resources)) if resources else {}
        for mangled, figures in resources.items():
            kernels[readable(names[mangled])] = figures_of(figures, codes.get(mangled, []))
    return kernels


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="+", type=pathlib.Path, help="objects of .cu files, or cubins")
    parser.add_argument("--architecture", default="sm_90", help="of those that the objects were compiled for: %(default)s")
    parser.add_argument("--cuobjdump", default="cuobjdump", help="the program, where it is not on the PATH")
    parser.add_argument("--json", type=pathlib.Path, help="file to write the figures to")
    parser.add_argument("--before", type=pathlib.Path, help="figures of another build, as --json wrote them")
    parser.add_argument("--changed", action="store_true", help="only kernels that are not as before")
    parser.add_argument("--kernels", default="", help="only kernels whose name has this regular expression")
    options = parser.parse_args(arguments)
    for tool in (options.cuobjdump, "c++filt"):
        if shutil.which(tool) is None:
            print(f"there is no {tool} here: see {pathlib.Path(__file__).name} --help for where it is from", file=sys.stderr)
            return 1
    try:
        before = None if options.before is None else json.loads(options.before.read_text())
        kernels = kernels_of(options.cuobjdump, options.architecture, options.objects)
        if options.json is not None:
            options.json.write_text(json.dumps(kernels, indent=1, sort_keys=True) + "\n")
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    kernels = {name: figures for name, figures in kernels.items() if re.search(options.kernels, name)}
    if not kernels:
        print(f"no kernel for {options.architecture} in {len(options.objects)} files that --kernels names; was it compiled "
              "for another architecture (--architecture)?", file=sys.stderr)
        return 1
    print("\n".join(table(kernels, before, options.changed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
