#!/usr/bin/env python3
"""What the verbs of partita answer, and how they are called. See harness.py."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import ELSEWHERE, QUICK, SMALL, answer, check, data, lenet_plan, partita, refuses, run


# ---------------------------------------------------------------------------------------------------- usage


def test_version_names_the_program():
    check(re.fullmatch(r"partita \d+\.\d+\.\d+\s*", partita("--version").out), "no version")


def test_help_starts_with_examples_and_lists_the_verbs():
    text = partita("--help").out
    check(text.startswith("Examples:"), text)
    for word in "Examples plan compare run verify profile import simulate machine list doctor".split():
        check(word in text, f"--help lacks {word}")


def test_every_verb_has_help():
    for verb in "plan compare run verify profile import simulate machine list doctor".split():
        text = partita(f"{verb} --help").out
        check(text.startswith(f"Examples:\n  partita {verb}") and "Usage" in text, f"{verb} --help")


def test_unknown_verb_is_named_and_the_verbs_listed():
    refuses("plam lenet", 2, r"unknown verb 'plam'.*plan, compare, simulate, profile, run, launch, verify")


def test_no_verb_lists_the_verbs():
    refuses("", 2, r"a verb is wanted: plan, compare")


def test_unknown_flag_is_wrong_usage():
    refuses("plan lenet --no_such_flag 3", 2, r"unknown arguments: --no_such_flag 3")


def test_flag_values_of_a_wrong_kind_are_wrong_usage():
    refuses("plan lenet --devices zero", 2, r"--devices")
    refuses("plan lenet --devices 0", 2, r"--devices")
    refuses("plan lenet --batch=-4", 2, r"--batch")
    refuses("plan lenet --evaluations 0", 2, r"--evaluations: wanted is a whole number from 1 on, not '0'")
    refuses("plan lenet --batch 99999999999999999999", 2, r"--batch: wanted is a whole number from 1 to 1048576")
    refuses("plan lenet --seed -1", 2, r"--seed")
    refuses("plan lenet --time_limit soon", 2, r"--time_limit: wanted is a number from 0 on, not 'soon'")
    refuses("profile lenet --profile_time 0", 2, r"--profile_time")
    refuses(f"verify {lenet_plan()} --steps 0", 2, r"--steps")
    for flag in ("--lr nan", "--lr -1", "--lr inf", "--momentum 1", "--weight_decay -1", "--eval_every -1",
                 "--data_workers -1", "--data_cache disk", "--steps 0", "--epochs 1.5", "--hang_seconds 0"):
        refuses(f"run {lenet_plan()} {flag}", 2, flag.split()[0])


def test_flags_that_do_not_go_together_are_wrong_usage():
    refuses(f"run {lenet_plan()} --load a.safetensors --resume b.safetensors", 2, r"--load and --resume")
    refuses(f"run {lenet_plan()} --eval_every 1", 2, r"--eval_every needs --eval_data")
    refuses(f"compare lenet {ELSEWHERE} --measure", 2, r"--measure runs plans on this host.*p100-4x4")
    refuses("import lenet -o lenet.onnx", 2, r"ends in \.textproto, 'lenet\.onnx' does not")
    refuses("profile lenet --machine p100-4x4", 2, r"p100-4x4.*not this host")


def test_steps_and_epochs_together_are_wrong_usage():
    refuses(f"run {lenet_plan()} --steps 3 --epochs 2", 2, r"--steps and --epochs both say how far to train")


def test_missing_model_is_wrong_usage():
    refuses("plan", 2, r"model")


def test_verify_takes_a_plan_or_a_reference_not_both():
    refuses("verify", 2, r"either a plan file or --reference")
    refuses(f"verify {lenet_plan()} --reference x", 2, r"either a plan file or --reference")


def test_dashes_in_flags_are_accepted():
    answer("plan mlp_tiny --machine p100-4x4 --devices 2 --evaluations 20 --time-limit 60 --profile-time 0", "plan")


# ---------------------------------------------------------------------------------------------------- answers


def test_import_answers_the_documented_keys():
    found = answer("import lenet --batch 16", "parameters macs_per_sample operators unsupported")
    check(found["parameters"] > 1000 and found["unsupported"] == [] and found["batch"] == 16, f"{found}")


def test_import_of_alexnet_counts_as_its_paper():
    found = answer(f"import {data('models/alexnet.onnx')}", "parameters macs_per_sample")
    check(found["parameters"] == 61100840, f"{found['parameters']} parameters")
    check(round(found["macs_per_sample"] / 1e5) == 7142, f"{found['macs_per_sample']} multiply-adds")


def test_import_writes_the_native_form_which_imports_alike():
    partita("import lenet --batch 4 -o native.textproto")
    keys = "parameters macs_per_sample"
    first, second = answer("import lenet --batch 4", keys), answer("import native.textproto", keys)
    check(all(first[key] == second[key] for key in keys.split()), f"{first} {second}")


def test_import_lists_all_unsupported_operators():
    bytes_of_model = pathlib.Path(data("models/lstm_lm.onnx")).read_bytes()
    pathlib.Path("backwards.onnx").write_bytes(bytes_of_model.replace(b"forward", b"reverse"))
    error = refuses("import backwards.onnx", 3, r"not supported")
    check(len(error["unsupported"]) >= 1 and "opset" in error["unsupported"][0], f"{error}")


def test_plan_for_this_machine_profiles_searches_and_writes():
    keys = "predicted_ms baseline_ms evaluations search_seconds seed"
    found = answer(f"plan mlp_tiny --seed 7 {SMALL} --profile own.db", keys)
    check(found["seed"] == 7 and found["predicted_ms"] > 0 and found["baseline_ms"] > 0, f"{found}")
    check(pathlib.Path("mlp_tiny.plan.textproto").exists() and pathlib.Path("own.db").exists(), "files")


def test_plan_says_why_and_what_to_do_next():
    text = partita(f"plan lenet {ELSEWHERE} -o said.textproto").out
    for pattern in ("conv1", "predicted step", "written: said.textproto", f"next: {harness.BINARY} verify"):
        check(pattern in text, f"'{pattern}' is not in {text}")
    check(re.search(r"the step waits for kernels \d+ %.*:\n  \w+", text), text)


def test_plan_is_the_same_for_the_same_seed():
    for name in ("a", "b"):
        partita(f"plan lenet --seed 3 {ELSEWHERE} -o {name}.textproto")
    check(pathlib.Path("a.textproto").read_bytes() == pathlib.Path("b.textproto").read_bytes(), "two plans differ")


def test_plan_of_an_expert_verifies():
    partita(f"plan lenet --batch 8 --strategy data_parallel {ELSEWHERE} -o expert.textproto")
    check(answer("verify expert.textproto --quick", "equal")["equal"] is True, "not equal")


def test_compare_answers_the_documented_keys():
    found = answer(f"compare lenet --batch 8 {ELSEWHERE} --verify", "strategies")
    rows = {row["name"]: row for row in found["strategies"]}
    check("data_parallel" in rows and "one_weird_trick" in rows and "searched" in rows, f"{list(rows)}")
    for key in "predicted_ms measured_ms communication_bytes_per_device peak_bytes_per_device".split():
        check(key in rows["searched"], f"searched lacks {key}")
    check(rows["searched"]["measured_ms"] is None and rows["searched"]["equal_to_serial"] is True, f"{rows}")


def test_compare_takes_plan_files_and_measures():
    partita(f"plan mlp_tiny {QUICK} -o mine.textproto")
    found = answer(f"compare mlp_tiny mine.textproto {QUICK} --measure --steps 3", "strategies")
    rows = {row["name"]: row for row in found["strategies"]}
    check(rows["mine.textproto"]["measured_ms"] > 0 and rows["searched"]["equal_to_serial"] is None, f"{rows}")
    measured = [row for row in found["strategies"] if row["measured_ms"] is not None]
    fastest = min(measured, key=lambda row: row["measured_ms"])
    check(fastest["measured_over_fastest"] == {"median": 1, "low": 1, "high": 1}, f"{fastest}")
    for row in measured:
        check(len(row["measured_steps_ns"]) >= 3, f"{row}")
        over = row["measured_over_fastest"]
        check(0 < over["low"] <= over["median"] <= over["high"], f"{row}")


def test_run_trains_saves_resumes_and_writes_the_timeline():
    partita(f"plan lenet --batch 8 {QUICK} -o run.textproto")
    line = "run run.textproto --steps 3 --save w.safetensors --timeline t.json"
    found = answer(line, "losses images_per_second")
    check(len(found["losses"]) == 3 and found["images_per_second"] > 0, f"{found}")
    check("traceEvents" in json.loads(pathlib.Path("t.json").read_text()), "no timeline")
    whole = answer("run run.textproto --steps 5", "losses")["losses"]
    rest = answer("run run.textproto --steps 5 --resume w.safetensors", "losses")["losses"]
    check(whole[-len(rest):] == rest, f"resumed losses {rest} are not the end of {whole}")


def test_a_resumed_run_has_the_seed_that_it_began_with():
    begin = f"run {lenet_plan()} --timeline none --init_seed 5"
    whole = answer(f"{begin} --steps 5", "losses")["losses"]
    partita(f"{begin} --steps 3 --save seeded.safetensors")
    for seed in ("", "--init_seed 5"):
        resume = f"run {lenet_plan()} --timeline none --steps 5 --resume seeded.safetensors {seed}"
        rest = answer(resume, "losses")["losses"]
        check(whole[3:] == rest, f"resumed losses {rest} are not the end of {whole}")
    resume = f"run {lenet_plan()} --steps 5 --resume seeded.safetensors"
    refuses(f"{resume} --init_seed 6", 3, r"run of seed 5; wanted is seed 6\. Leave --init_seed away")
    refuses(f"{resume} --data synthetic:777", 3, r"batch 3 of epoch 0 of \d+ samples; found are 777")


def test_compare_rows_that_decline_have_all_keys():
    rows = answer(f"compare mlp_tiny --batch 8 {ELSEWHERE}", "strategies")["strategies"]
    check(any("declined" in row for row in rows), f"{rows}")
    for row in rows:
        for key in ("predicted_ms measured_ms communication_bytes_per_device peak_bytes_per_device equal_to_serial"
                    .split()):
            check(key in row, f"{row} lacks {key}")


def test_run_says_how_much_reading_was_hidden():
    def run_with(workers):
        return f"run {lenet_plan()} --data synthetic_digits --steps 3 --data_workers {workers}"
    hidden = answer(run_with(2), "reading_ms reading_hidden_ms waiting_share")
    check(0 <= hidden["reading_hidden_ms"] <= hidden["reading_ms"], f"{hidden}")
    none = answer(run_with(0), "reading_hidden_ms")["reading_hidden_ms"]
    check(none < 0.1 * hidden["reading_ms"] + 1, "not 0")


def test_run_writes_the_measured_timeline_beside_the_plan():
    path = shutil.copy(lenet_plan(), "timed.textproto")
    found = answer(f"run {path} --steps 1", "written")
    check(found["written"] == ["timed.textproto.measured.json"], f"{found}")
    check(answer(f"run {path} --steps 1 --timeline none", "written")["written"] == [], "written")


def test_verify_proves_a_plan_equal():
    found = answer(f"verify {lenet_plan()}", "equal plans max_abs_error first_difference arithmetic tolerance")
    check(found["arithmetic"] == "float32" and found["tolerance"] == 1e-3, f"{found}")
    check(found["equal"] is True and found["plans"] == 1 and found["ring"] is True, f"{found}")
    check(found["first_difference"] is None, f"{found}")


def test_alexnet_with_all_its_weights_in_shards_trains_like_the_serial_model():
    partita("plan alexnet --batch 4 --strategy zero3 --devices 4 --oversubscribe --profile_time 0 -o shards.plan.textproto")
    found = answer("verify shards.plan.textproto --quick --steps 2", "equal batch steps")
    check(found["equal"] is True and found["batch"] == 4 and found["steps"] == 2, f"{found}")


def test_quick_verify_says_so():
    check("quick" in partita(f"verify --quick {lenet_plan()}").out, "it does not say that it was quick")


def test_verify_reduces_a_batch_that_does_not_fit_and_says_so():
    partita(f"plan lenet --batch 64 {ELSEWHERE} -o large.textproto")
    found = answer("verify large.textproto --memory 6000000", "equal batch")
    check(found["equal"] is True and 1 < found["batch"] < 64, f"{found}")
    check("reduced from the plan's 64" in partita("verify large.textproto --memory 6000000").out, "it does not say so")


def test_verify_of_what_never_fits_tells_the_bytes_needed():
    refuses(f"verify {lenet_plan()} --memory 1000", 4, r"at batch \d+ needs at least \d+ bytes; 1000 may be used")


def test_verify_against_a_reference():
    line = f"verify --reference {data('oracle/mlp')} --random_plans 4 --devices 3 --seed 5"
    found = answer(line, "equal plans max_abs_error first_difference")
    check(found["equal"] is True and found["plans"] == 4 and found["first_difference"] is None, f"{found}")


def test_verify_finds_and_names_a_wrong_value_of_a_reference():
    shutil.copytree(data("oracle/mlp"), "wrong", dirs_exist_ok=True)
    path = pathlib.Path("wrong/expected.safetensors")
    path.chmod(0o644)
    raw = bytearray(path.read_bytes())
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    name = next(key for key in header if key.startswith("final/"))
    start = 8 + length + header[name]["data_offsets"][0]
    raw[start:start + 4] = b"\x00\x00\x80\x41"  # 16.0f
    path.write_bytes(raw)
    found = answer("verify --reference wrong --random_plans 2", "equal first_difference", expect=1)
    check(found["equal"] is False and name in found["first_difference"], f"{name}: {found}")


def test_simulate_writes_a_timeline():
    found = answer(f"simulate {lenet_plan()} --machine p100-4x4 -o s.json", "predicted_ms timeline")
    check(found["predicted_ms"] > 0 and "traceEvents" in json.loads(pathlib.Path("s.json").read_text()), f"{found}")


def test_simulate_shows_measured_times_beside_predicted_ones():
    plan = shutil.copy(lenet_plan(), "both.textproto")
    partita(f"run {plan} --steps 2")
    partita(f"simulate {plan} --measured {plan}.measured.json -o both.json")
    for name, times in ((f"{plan}.measured.json", {"measured_us"}), ("both.json", {"predicted_us", "measured_us"})):
        trace = json.loads(pathlib.Path(name).read_text())
        slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        check(slices and all(times <= event["args"].keys() for event in slices), name)
        check(all(event["args"]["shapes"] and event["cname"] for event in slices), name)
        reached = [event for event in trace["traceEvents"] if event["name"] == "memory reached"]
        check(reached[-1]["args"]["bytes"] == trace["otherData"]["peak_bytes"][-1] > 0, f"{reached[-1:]}")
    partita(f"plan mlp_tiny {QUICK} -o another.textproto")
    refuses(f"simulate another.textproto --measured {plan}.measured.json", 3, r"measured\.json' is of another step")
    refuses(f"simulate {plan} --measured {plan}", 3, r"both\.textproto': no trace event JSON")
    refuses(f"simulate {plan} --measured both.json -o both.json", 2, r"--measured")


def test_simulate_takes_the_machine_of_the_plan():
    planned = answer(f"plan mlp_tiny {ELSEWHERE} -o elsewhere.textproto", "predicted_ms machine")
    found = answer("simulate elsewhere.textproto", "machine predicted_ms")
    check(found["machine"] == planned["machine"] == "p100-4x4", f"{found} {planned}")
    check(found["predicted_ms"] == planned["predicted_ms"], f"{found} {planned}")
    text = pathlib.Path("elsewhere.textproto").read_text().replace('"p100-4x4"', '"moved.textproto"')
    pathlib.Path("elsewhere.textproto").write_text(text)
    refuses("simulate elsewhere.textproto", 3, r"made for machine 'moved\.textproto'.*--machine")


def test_a_machine_file_of_another_host_is_not_this_host():
    answer("machine discover --devices 2 --oversubscribe -o this_host.textproto", "written")
    answer("compare mlp_tiny --machine this_host.textproto --profile_time 0 --evaluations 20 --measure --steps 1", "strategies")
    text = re.sub(r'hardware: "[^"]*"', 'hardware: "another processor"', pathlib.Path("this_host.textproto").read_text())
    pathlib.Path("theirs.textproto").write_text(text)
    refuses("compare mlp_tiny --machine theirs.textproto --profile_time 0 --evaluations 20 --measure", 2, "this host")
    refuses("profile mlp_tiny --machine theirs.textproto", 2, "not this host")


def test_profile_resumes():
    line = "profile mlp_tiny --devices 2 --oversubscribe --profile resumes.db --profile_time 2"
    first = answer(line, "wanted measured complete")
    second = answer(line, "wanted known repeated unsteady")
    known = second["known"] + second["repeated"]
    check(known == first["measured"] or not second["complete"], f"{first} {second}")


def test_compare_takes_a_plan_as_it_stands():
    partita(f"plan mlp_tiny {ELSEWHERE} --strategy data_parallel -o sent.textproto")
    text = pathlib.Path("sent.textproto").read_text()
    text = re.sub(r"(?m)^(order|task_graph_fingerprint): .*$|^(prediction|algorithm|bucket) \{(.|\n)*?^\}$", "", text)
    text = re.sub(r"(?m)^partition \{\n", "partition {\n  point_to_point: true\n", text)
    if "point_to_point" not in text:
        text += "partition { point_to_point: true }\n"
    pathlib.Path("sent.textproto").write_text(text)
    alone = answer("simulate sent.textproto --machine p100-4x4", "predicted_ms")["predicted_ms"]
    rows = answer(f"compare mlp_tiny sent.textproto {ELSEWHERE}", "strategies")["strategies"]
    times = {row["name"]: row["predicted_ms"] for row in rows}
    check(times["sent.textproto"] == alone != times["data_parallel"], f"{times}, simulated alone {alone}")


def test_profile_time_bounds_the_preparation_too():
    found = answer("profile lenet --devices 16 --oversubscribe --profile bounded.db --profile_time 1", "complete")
    check(not found["complete"], f"{found}")


def test_numbers_that_cannot_be_are_wrong_usage():
    refuses("plan lenet --machine p100-4x4 --devices 99 -o never.textproto", 2, "has 16.*from 1 to 16")
    refuses("plan lenet --machine p100-4x4 --search exhaustive -o never.textproto", 2, "--evaluations")


def test_verify_runs_the_float_part_on_another_backend():
    found = answer(f"verify {lenet_plan()} --quick --backend cpu", "equal max_abs_error")
    check(found["equal"] and 0 < found["max_abs_error"] < 1e-3, f"{found}")
    refuses(f"verify {lenet_plan()} --backend tpu", 2, "reference, cpu, cuda")


def test_a_cpu_refuses_any_precision_but_float32():
    for precision in ("tf32", "float16", "bfloat16"):
        wanted = rf"computes in float32; {precision} is for the GPUs"
        refuses(f"run {lenet_plan()} --steps 1 --precision {precision}", 2, wanted)
        refuses(f"verify {lenet_plan()} --quick --precision {precision}", 2, wanted)
    refuses(f"run {lenet_plan()} --precision float8", 2, "float32, tf32, float16, bfloat16")
    found = answer(f"verify {lenet_plan()} --quick --precision float32", "equal")
    check(found["equal"], f"{found}")
    for line in ("plan lenet -o never.textproto", "compare lenet", "profile lenet"):
        refuses(f"{line} --precision tf32", 2, "the cpu backend computes in float32; tf32 is for the GPUs")


def two_classes():
    """A file of this host as two devices of two classes, made once."""
    path = pathlib.Path("two_classes.textproto")
    if not path.exists():
        text = partita("machine show local --devices 2 --oversubscribe").out
        text = text[text.index("name:"):]
        own = re.search(r"device_classes \{.*?\n\}\n", text, re.S).group(0)
        second = text.index('name: "cpu1"')
        text = text[:second] + text[second:].replace('device_class: "cpu"', 'device_class: "slow"', 1)
        path.write_text(text + own.replace('name: "cpu"', 'name: "slow"', 1))
    return path


def test_a_plan_over_two_device_classes_runs_on_a_backend_for_each():
    on = f"--machine {two_classes()} --backend slow=reference"
    partita(f"plan lenet --batch 8 --strategy operator_placement --profile_time 3 {on} -o mixed.plan.textproto")
    run = answer("run mixed.plan.textproto --steps 2 --backend slow=reference", "steps losses")
    check(run["steps"] == 2, run)
    found = answer("verify mixed.plan.textproto --backend cpu=cpu --backend slow=reference", "equal ring")
    check(found["equal"] and found["ring"], found)
    rows = answer(f"compare lenet --batch 8 --measure --steps 3 --profile_time 1 --evaluations 50 {on}",
                  "strategies")["strategies"]
    check(all(row["measured_ms"] > 0 for row in rows if "declined" not in row), rows)


def test_a_plan_for_gpus_runs_on_cores_when_told_to():
    partita(f"plan lenet --batch 8 --strategy data_parallel {ELSEWHERE} -o gpus.textproto")
    run = answer("run gpus.textproto --steps 1 --backend cpu --timeline none", "steps")
    check(run["steps"] == 1, run)
    if not [part for part in answer("doctor", "parts")["parts"] if part["part"] == "backend cuda" and part["works"]]:
        refuses("run gpus.textproto --steps 1", 5, "'n0.gpu0' .*cuda.*--backend cpu")


def test_a_backend_for_a_class_that_is_not_there_is_wrong_usage():
    refuses(f"run {lenet_plan()} --backend tpu=reference", 2, "--backend tpu=reference: no device .*there are: cpu")
    refuses(f"run {lenet_plan()} --backend cpu=tpu", 2, "unknown backend 'tpu'.*reference")


def test_virtual_devices_are_as_many_as_the_plans():
    refuses(f"verify {lenet_plan()} --virtual_devices 3", 2, "the plan has 2 devices")
    refuses(f"run {lenet_plan()} --virtual_devices 3", 2, "the plan has 2 devices")
    if not [part for part in answer("doctor", "parts")["parts"] if part["part"] == "backend cuda" and part["works"]]:
        refuses(f"verify {lenet_plan()} --quick --virtual_devices 2", 5, "GPU|CUDA")
        refuses(f"run {lenet_plan()} --virtual_devices 2", 5, "GPU|CUDA")
        refuses("machine discover --gpus 1 -o discovered.textproto", 5, "GPU|CUDA")


def test_time_limit_is_no_interruption():
    found = answer(f"plan lenet {ELSEWHERE.replace('--evaluations 50', '')} --evaluations 100000000 --time_limit 0.2 -o limited.textproto", "interrupted")
    check(found["time_limit_reached"] and not found["interrupted"], f"{found}")


def test_machine_show_and_discover():
    check(len(answer("machine show p100-4x4", "devices")["devices"]) == 16, "p100-4x4 has 16 devices")
    check(len(answer("machine show p100-4x4 --devices 3", "devices")["devices"]) == 3, "--devices 3")
    pathlib.Path("shown.textproto").write_text(partita("machine show p100-4x4 --devices 3").out)
    check(len(answer("machine show shown.textproto", "devices")["devices"]) == 3, "what is shown can be read")
    answer("machine discover --devices 2 --oversubscribe -o found.textproto", "written")
    check(len(answer("machine show found.textproto", "devices")["devices"]) == 2, "found.textproto has 2 devices")


def test_list_knows_every_table():
    tables = "operators onnx_operators models machines strategies searches priorities backends collectives"
    for what in tables.split():
        check(answer(f"list {what}", what)[what], f"list {what} is empty")


def test_doctor_says_what_works():
    parts = answer("doctor", "parts")["parts"]
    check(any(part["part"] == "backend reference" and part["works"] for part in parts), f"{parts}")


def test_doctor_tests_itself():
    checks = answer("doctor --self_test", "parts checks")["checks"]
    check(all(one["verdict"] != "FAILED" for one in checks), f"{checks}")
    passed = [one["check"] for one in checks if one["verdict"] == "ok"]
    for kind in ["kernels of ", "ring: ", "save and resume"]:
        check(any(name.startswith(kind) for name in passed), f"no {kind}: {passed}")


# ---------------------------------------------------------------------------------------------------- stages


def files_in(folder):
    return sorted(path.name for path in pathlib.Path(folder).iterdir())


def test_plan_dumps_every_stage_and_the_steps_of_the_search():
    found = answer(f"plan lenet --batch 8 {ELSEWHERE} --dump_dir stages -o staged.textproto", "stages predicted_ms")
    wanted = ["00_model.txt", "10_training_graph.txt", "15_search.csv", "20_strategy.txt", "30_task_graph.txt",
              "31_timeline.predicted.json", "40_plan.textproto", "50_program.rank0.txt", "50_program.rank1.txt",
              "51_buffers.rank0.txt", "51_buffers.rank1.txt"]
    check(files_in("stages") == wanted, f"{files_in('stages')}")
    names = [stage["name"] for stage in found["stages"]]
    every = "model training_graph strategy task_graph predicted_timeline plan program buffers"
    check(names == every.split(), f"{names}")
    check(all(stage["seconds"] >= 0 and stage["files"] for stage in found["stages"]), f"{found['stages']}")
    check(pathlib.Path("stages/40_plan.textproto").read_text() == pathlib.Path("staged.textproto").read_text(), "plan")
    rows = pathlib.Path("stages/15_search.csv").read_text().splitlines()
    check(rows[0] == "round,evaluations,chain,start,move,current_ns,best_ns" and len(rows) > 1, f"{rows[:3]}")
    best = [int(row.split(",")[-1]) for row in rows[1:]]
    check(best == sorted(best, reverse=True) and best[-1] / 1e6 >= found["predicted_ms"], f"{best}")


# A measured step takes longer than its timeline: the lanes are started and waited for.
def test_a_plan_of_measured_tasks_dumps_every_stage():
    partita(f"plan lenet --batch 8 {SMALL} --profile dumped.db -o measured.textproto --dump_dir measured_stages")
    check(files_in("measured_stages")[-1] == "51_buffers.rank1.txt", f"{files_in('measured_stages')}")


def test_stopping_after_a_stage_makes_nothing_behind_it():
    line = f"plan lenet {ELSEWHERE} -o unmade.textproto --stop_after strategy --dump_dir short"
    found = answer(line, "stopped_after stages")
    check(found["stopped_after"] == "strategy" and found["stages"][-1]["name"] == "strategy", f"{found}")
    check(files_in("short")[-1] == "20_strategy.txt" and not pathlib.Path("unmade.textproto").exists(), "made more")


def test_every_verb_with_a_plan_goes_through_stages():
    plan = lenet_plan()
    ends = {"run": "60_timeline.measured.json", "verify": "40_plan.textproto", "simulate": "40_plan.textproto"}
    for verb, last in ends.items():
        flags = {"run": "--steps 1", "verify": "--quick", "simulate": "--machine p100-4x4 -o out.json"}[verb]
        partita(f"{verb} {plan} {flags} --dump_dir {verb}_stages")
        check(files_in(f"{verb}_stages")[-1] == last, f"{verb}: {files_in(f'{verb}_stages')}")
        found = answer(f"{verb} {plan} --stop_after training_graph", "stopped_after")
        check([stage["name"] for stage in found["stages"]] == ["model", "training_graph"], f"{found}")
    line = f"compare lenet --batch 8 {ELSEWHERE} --dump_dir compared --stop_after plan"
    answer(line, "stopped_after")
    for row in ("searched", "data_parallel"):
        check(files_in(f"compared/{row}")[-1] == "40_plan.textproto", f"{row}: {files_in(f'compared/{row}')}")


def test_unknown_stages_list_the_valid_ones():
    refuses("plan lenet --stop_after everything", 2, r"everything.*model, training_graph, strategy")
    refuses(f"verify {lenet_plan()} --stop_after measured_timeline", 2, r"measured_timeline.*model, training_graph")


def test_a_dump_folder_that_cannot_be_made_is_named():
    pathlib.Path("a_file").write_text("")
    refuses(f"verify {lenet_plan()} --quick --dump_dir a_file/below", 3, r"a_file/below")


# ---------------------------------------------------------------------------------------------------- Ctrl-C


def interrupted(line, seconds):
    """What the command line answers when Ctrl-C ends it after so long."""
    command = [harness.BINARY] + line.split()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    check(process.returncode == 130, f"exit {process.returncode}: {out}{err}")
    return out


def test_interrupted_search_keeps_what_it_found():
    line = "plan lenet --machine p100-4x4 --evaluations 1000000000 -o kept.textproto --json"
    out = interrupted(line, 3)
    check(json.loads(out)["interrupted"] is True, out)
    check(answer("simulate kept.textproto --machine p100-4x4", "predicted_ms")["predicted_ms"] > 0, "the plan is bad")


def test_interrupted_comparison_reports_what_it_measured():
    line = f"compare mlp_tiny {QUICK} --measure --steps 100000000 --json"
    out = interrupted(line, 5)
    check(json.loads(out)["strategies"][0]["measured_ms"] > 0, out)


def test_comparison_interrupted_before_it_measured_has_the_predictions():
    line = "compare mlp_tiny --devices 2 --oversubscribe --profile_time 0 --evaluations 1000000000 --measure --json"
    found = json.loads(interrupted(line, 3))
    check(found["interrupted"] is True, f"{found}")
    rows = [row for row in found["strategies"] if "declined" not in row]
    check("searched" in [row["name"] for row in rows], f"{rows}")
    check(all(row["predicted_ms"] > 0 and row["measured_ms"] is None for row in rows), f"{rows}")


def test_interrupt_before_anything_is_found_exits_with_130():
    machine = partita("machine show p100-4x4").out
    small, count = re.subn(r"memory_bytes: \d+", "memory_bytes: 1000", machine)
    check(count > 0, machine)
    pathlib.Path("small.machine.textproto").write_text(small, encoding="utf-8")
    line = "plan lenet --machine small.machine.textproto --evaluations 1000000000 -o none.textproto --json"
    out = interrupted(line, 2)
    check(json.loads(out)["error"]["exit_code"] == 130, out)
    check(not pathlib.Path("none.textproto").exists(), "there is a plan")


def test_interrupted_verification_says_how_far_it_came():
    found = json.loads(interrupted(f"verify {lenet_plan()} --steps 1000000 --json", 5))
    check(found["interrupted"] is True and found["equal"] is None and found["first_difference"] is None, f"{found}")
    check(found["steps_compared"] > 0, f"{found}")


def test_interrupted_verification_against_a_reference_says_how_far_it_came():
    line = f"verify --reference {data('oracle/mlp')} --random_plans 1000000000 --json"
    found = json.loads(interrupted(line, 5))
    check(found["interrupted"] is True and found["equal"] is None and found["plans"] > 0, f"{found}")


def test_interrupted_training_saves():
    partita(f"plan mlp_tiny {QUICK} -o long.textproto")
    line = "run long.textproto --steps 100000000 --save kept.safetensors --json"
    out = interrupted(line, 3)
    check(json.loads(out)["interrupted"] is True and pathlib.Path("kept.safetensors").exists(), out)


if __name__ == "__main__":
    run(globals(), "CommandLineTest")
