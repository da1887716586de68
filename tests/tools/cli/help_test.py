#!/usr/bin/env python3
"""What the program says of itself: help of verbs, what a mistyped word probably meant, completion in shells. See
harness.py."""

import pathlib
import re
import shutil
import subprocess

import harness
from harness import Skipped, answer, check, on_terminal, partita, refuses, run


def verbs():
    """All verbs, those of two words, too."""
    names = re.findall(r"^  ([a-z]+) {2,}", partita("--help").out.split("Planning:")[1].split("Every verb:")[0], re.M)
    below = re.findall(r"^  ([a-z]+) {2,}", partita("machine --help").out.split("Verbs:")[1].split("Every verb")[0], re.M)
    check(len(names) > 10 and len(below) == 3, f"{names} {below}")
    return names + [f"machine {name}" for name in below]


def flags_of(verb):
    """Its flags, by its help."""
    return set(re.findall(r"^  (?:-\w, )?(--[a-z_]+)", partita(f"{verb} --help").out, re.M))


def test_mistyped_words_are_guessed():
    for line, pattern in (("plna lenet", r"unknown verb 'plna'; did you mean 'plan'\? The verbs are: plan, "),
                          ("plan alexnt", r"unknown model 'alexnt'; did you mean 'alexnet'\? Known are: alexnet, "),
                          ("plan AlexNet", r"did you mean 'alexnet'\?"),
                          ("plan lenet --bacth 8", r"unknown arguments: --bacth 8; did you mean '--batch'\?"),
                          ("plan lenet --profile-tme=3", r"did you mean '--profile_time'\?"),
                          ("plan lenet --strategy data_paralel", r"did you mean 'data_parallel'\?"),
                          ("plan lenet --search anealing", r"did you mean 'annealing'\?"),
                          ("plan lenet --machine p100-4x5", r"did you mean 'p100-4x4'\?"),
                          ("plan lenet --optimizer adm", r"did you mean 'adam'\?"),
                          ("list modles", r"did you mean 'models'\?"),
                          ("completion bahs", r"did you mean 'bash'\?"),
                          ("plan --devcies 4 lenet", r"unknown arguments: --devcies; did you mean '--devices'\?"),
                          ("plan --machin p100-4x4 lenet", r"did you mean '--machine'\?"),
                          ("plan lenet --mach=p100-4x4", r"did you mean '--machine'\?"),
                          ("compare lenet --machine p100-4x4 --device 4", r"--device; did you mean '--devices'\?"),
                          ("simulate --out x lenet.plan.textproto", r"did you mean '--output'\?"),
                          ("machine create --gpu h100", r"did you mean 'h100-.*'\?"),
                          ("machine creat", r"unknown verb of machine 'creat'; did you mean 'create'\?"),
                          ("help machine creat", r"unknown verb 'creat'; did you mean 'create'\?"),
                          ("help plan run", r"help is on one verb; given is 'run', too"),
                          ("--machine p100-4x4 plan lenet", r"--machine is no flag of partita itself; .* after it"),
                          ("--jsn lenet", r"unknown arguments: --jsn; did you mean '--json'\?")):
        refuses(line, 2, pattern)
    check("--batch: a value is missing" in partita("plan lenet --batch", 2).err, "a flag without its value")
    for line in ("zzz lenet", "plan lenet --zzzzzzzz 3", "plan lenet --strategy zzzzzzzz"):
        check("did you mean" not in partita(line, 2).err, f"{line}: a guess about nothing")


def test_help_of_a_verb():
    check(partita("help").out == partita("--help").out, "help is not --help")
    for verb in verbs():
        found = partita(f"help {verb}").out
        check(found == partita(f"{verb} --help").out, f"help {verb} is not {verb} --help")
        check(re.match(r"Examples:\n  .*partita ", found), f"{verb} has no examples")
        check(f"\nUsage: partita {verb} " in found, f"{verb} has no usage")
        long = [one for one in found.split("\n") if len(one) > 80]
        check(not long, f"help {verb}: lines of more than 80 characters: {long}")
    check(all(len(one) <= 80 for one in partita("--help").out.split("\n")), "partita --help: lines are too long")
    for line in ("help plna", "plna --help"):
        refuses(line, 2, r"unknown verb 'plna'.*did you mean 'plan'\?")


def test_flags_and_verbs_stand_under_headings():
    headings = {verb: re.findall(r"^([A-Z][^:\n]*):$", partita(f"help {verb}").out, re.M) for verb in verbs()}
    for verb, wanted in (("plan", "Examples Arguments|Model and data|Training|Machine|Search|Measuring|Output|Stages"),
                         ("run", "Arguments|Model and data|Training|Checkpoints|Output|Machine|Stages"),
                         ("compare", "Model and data|Machine|Search|Measuring|Checks|Stages")):
        lacking = set(wanted.replace("Examples ", "").split("|")) - set(headings[verb])
        check(not lacking, f"help {verb} lacks {lacking}; it has {headings[verb]}")
        check(len(set(headings[verb])) == len(headings[verb]), f"help {verb}: a heading comes twice: {headings[verb]}")
    found = partita("--help").out
    for heading in ("Planning", "Running and proving", "Models and machines", "The program", "Every verb", "Exit codes"):
        check(f"\n{heading}:\n" in found, f"partita --help has no heading {heading}")


def test_lines_are_as_wide_as_the_terminal():
    for columns in (60, 120):
        found = on_terminal("help plan", "stdout", columns)
        widest = max(len(one) for one in found.split("\n"))
        check(columns - 25 < widest <= columns or columns < 80, f"{columns} columns, and the widest line has {widest}")
    check(on_terminal("help plan", "stdout", 80) == partita("help plan").out, "80 is not what others get")


def test_manual():
    page = answer("help --man", "man")["man"]
    check(partita("help --man").out == page, "not what JSON has")
    check(page.startswith(".TH PARTITA 1 "), page[:100])
    sections = re.findall(r"^\.SH (.*)$", page, re.M)
    wanted = ("NAME", "SYNOPSIS", "DESCRIPTION", "VERBS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES")
    check([one for one in sections if one in wanted] == list(wanted), f"{sections}")
    below = page.split(".SH ARGUMENTS AND FLAGS OF EACH VERB")[1].split(".SH EXIT STATUS")[0]
    parts = dict(zip(re.findall(r'^\.SS "(.*)"$', below, re.M), re.split(r"^\.SS .*$", below, flags=re.M)[1:]))
    check(list(parts) == [one for one in parts if one in verbs()] and len(parts) == len(verbs()), f"{list(parts)}")
    for verb, text in parts.items():
        for flag in flags_of(verb) - {"--help"}:
            check(flag.replace("-", "\\-") in text + page.split(".SH ARGUMENTS")[0], f"{verb}: no {flag}")
    for code in ("0", "1", "2", "3", "4", "5", "7", "130"):
        check(f'.B "{code}"' in page.split(".SH EXIT STATUS")[1], f"no exit code {code}")
    check(not re.search(r"^[.'](?!TH |SH |SS |TP$|B |I |PP$|nf$|fi$)", page, re.M), "a line is taken for a request")
    refuses("help plan --man", 2, "partita help --man")


def test_manual_renders_without_warnings():
    if not shutil.which("groff"):
        raise Skipped("no groff here")
    page = partita("help --man").out
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-rLL=80n"], input=page, capture_output=True, text=True,
                          timeout=60)
    check(done.returncode == 0 and done.stderr == "", f"groff: {done.stderr}")
    check("--profile_time" in done.stdout or "profile_time" in done.stdout, "no flag in what it makes")


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
    check(completed("help", "--m") == ["--man"], "no manual")
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
