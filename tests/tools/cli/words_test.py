#!/usr/bin/env python3
"""Runs on words. See harness.py."""

import pathlib

from harness import SMALL, answer, check, partita, refuses, run


def test_run_trains_on_words():
    partita(f"plan nmt_tiny --batch 4 {SMALL} -o words.plan.textproto")
    text = [(7 * k * k + k) % 20 for k in range(6 * 16 + 1)]
    pathlib.Path("text.txt").write_text(" ".join(map(str, text)))
    pathlib.Path("rows.txt").write_text("\n".join(f"{k} 2 3 4 5 6  7 8 9" for k in range(18)))
    line = "run words.plan.textproto --steps 8 --data"
    found = answer(f"{line} words:text.txt --eval_data rows:rows.txt", "losses eval_accuracy steps")
    check(found["steps"] == 8 and 0 <= found["eval_accuracy"] <= 1, f"{found}")
    check(answer(f"{line} synthetic", "losses")["losses"][0] > 0, "no loss")
    pathlib.Path("text.txt").write_text("1 2 3\n4 20")
    refuses(f"{line} words:text.txt", 3, r"line 2 has the word 20; the model knows 20 \(0 to 19\)")
    pathlib.Path("beyond.txt").write_text("1 2 3 4 5 6  7 8 9\n1 2 3 4 5 6  7 20 9")
    refuses(f"{line} rows:beyond.txt", 3, r"'beyond.txt': sample 1 has the label 20; the model has 20 classes, labels 0 to 19")
    refuses(f"{line} synthetic_digits", 3, r"6 is wanted by the model")
    refuses(f"{line} rows:rows.txt --save rows.txt", 2, r"rows.txt")
    refuses(f"{line} words:absent.txt", 3, r"absent.txt")


if __name__ == "__main__":
    run(globals(), "WordsTest")
