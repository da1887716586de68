#!/usr/bin/env python3
"""What the program says of itself: help of verbs, what a mistyped word probably meant, completion in shells. See
harness.py."""

import pathlib
import re
import shutil
import subprocess

import harness
from harness import answer, check, partita, refuses, run


def verbs():
    """All verbs, those of two words, too."""
    names = re.findall(r"^  ([a-z]+) {2,}", partita("--help").out.split("Subcommands:")[1].split("Every verb")[0], re.M)
    below = re.findall(r"^  ([a-z]+) {2,}", partita("machine --help").out.split("Subcommands:")[1], re.M)
    check(len(names) > 10 and len(below) == 3, f"{names} {below}")
    return names + [f"machine {name}" for name in below]


def flags_of(verb):
    """Its flags, by its help."""
    return set(re.findall(r"^  (?:-\w,)?(--[a-z_]+)", partita(f"{verb} --help").out, re.M)) - {"--version"}


def test_mistyped_words_are_guessed():
    for line, pattern in (("plna lenet", r"unknown verb 'plna'; the verbs are: plan, .*; did you mean 'plan'\?"),
                          ("plan alexnt", r"unknown model 'alexnt'; .*; did you mean 'alexnet'\?"),
                          ("plan AlexNet", r"did you mean 'alexnet'\?"),
                          ("plan lenet --bacth 8", r"unknown arguments: --bacth 8; did you mean '--batch'\?"),
                          ("plan lenet --profile-tme=3", r"did you mean '--profile_time'\?"),
                          ("plan lenet --strategy data_paralel", r"did you mean 'data_parallel'\?"),
                          ("plan lenet --search anealing", r"did you mean 'annealing'\?"),
                          ("plan lenet --machine p100-4x5", r"did you mean 'p100-4x4'\?"),
                          ("plan lenet --optimizer adm", r"did you mean 'adam'\?"),
                          ("list modles", r"did you mean 'models'\?"),
                          ("completion bahs", r"did you mean 'bash'\?")):
        refuses(line, 2, pattern)
    for line in ("zzz lenet", "plan lenet --zzzzzzzz 3", "plan lenet --strategy zzzzzzzz"):
        check("did you mean" not in partita(line, 2).err, f"{line}: a guess about nothing")


def test_help_of_a_verb():
    check(partita("help").out == partita("--help").out, "help is not --help")
    for verb in verbs():
        found = partita(f"help {verb}").out
        check(found == partita(f"{verb} --help").out, f"help {verb} is not {verb} --help")
        check(re.match(r"Examples:\n  .*partita ", found), f"{verb} has no examples")
    for line in ("help plna", "plna --help"):
        refuses(line, 2, r"unknown verb 'plna'.*did you mean 'plan'\?")


def completed(*words):
    """What bash completes the last of these words to, after the program's name."""
    script = ('source <("$0" completion bash); COMP_WORDS=(partita "$@"); COMP_CWORD=$#; _partita; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    found = subprocess.run(["bash", "-uc", script, harness.BINARY, *words], capture_output=True, text=True, timeout=60)
    check(found.returncode == 0 and found.stderr == "", f"bash: {found.stderr}")
    return found.stdout.split()


def test_bash_completes_verbs_flags_and_names():
    pathlib.Path("mine.plan.textproto").write_text("")
    pathlib.Path("model.onnx").write_text("")
    check(completed("pl") == ["plan"], f"{completed('pl')}")
    check({"plan", "compare", "help"} <= set(completed("")), f"{completed('')}")
    check(completed("plan", "--bat") == ["--batch"], f"{completed('plan', '--bat')}")
    check(completed("plan", "lenet", "--strategy", "data_p") == ["data_parallel"], "no strategy")
    check("alexnet" in completed("plan", "alexn"), f"{completed('plan', 'alexn')}")
    check(completed("plan", "model.o") == ["model.onnx"], f"{completed('plan', 'model.o')}")
    check(completed("run", "mine") == ["mine.plan.textproto"], f"{completed('run', 'mine')}")
    check(completed("plan", "lenet", "-o", "mine") == ["mine.plan.textproto"], "no file after -o")
    check(completed("plan", "lenet", "--batch", "") == [], f"{completed('plan', 'lenet', '--batch', '')}")
    check(completed("machine", "cr") == ["create"], f"{completed('machine', 'cr')}")
    check("--nodes" in completed("machine", "create", "--n"), "no flag of two words")
    check(completed("launch", "-n", "2", "run", "--epo") == ["--epochs"], "no flag of what is launched")
    check(completed("list", "mod") == ["models"] and completed("help", "si") == ["simulate"], "no arguments")
    for verb in verbs():
        lacking = flags_of(verb) - set(completed(*verb.split(), "--"))
        check(not lacking, f"{verb}: {lacking} is not completed")


def test_zsh_and_fish_know_every_flag():
    scripts = {shell: answer(f"completion {shell}", "script")["script"] for shell in ("zsh", "fish")}
    for shell, script in scripts.items():
        check(partita(f"completion {shell}").out == script, f"{shell}: not what JSON has")
        if shutil.which(shell):
            pathlib.Path(f"script.{shell}").write_text(script)
            found = subprocess.run([shell, "-n", f"script.{shell}"], capture_output=True, text=True, timeout=60)
            check(found.returncode == 0, f"{shell}: {found.stderr}")
    for verb in verbs():
        for flag in flags_of(verb) - {"--help", "--json"}:
            check(f"'{flag}[" in scripts["zsh"], f"zsh: {verb} {flag}")
            check(f" -l {flag[2:]} " in scripts["fish"], f"fish: {verb} {flag}")
    check("data_parallel" in scripts["zsh"] and "data_parallel" in scripts["fish"], "no names of strategies")


if __name__ == "__main__":
    run(globals(), "HelpTest")
