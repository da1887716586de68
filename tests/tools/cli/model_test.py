"""Models as users bring them: what is said of them, what is refused, and what becomes of their weights."""

import json
import os
import pathlib
import re

import harness
from harness import ELSEWHERE, QUICK, answer, check, data, partita, refuses

CLASSES = "mean cross-entropy over 5 classes"


def exported(name):
    return data(f"batch_norm/{name}.onnx")


def plan_of(model, path):
    partita(f"plan {model} --strategy data_parallel {QUICK} -o {path}")
    return path


def text_model(name, items, logits):
    path = pathlib.Path(f"{name}.textproto")
    path.write_text(f'format_version: 2 name: "{name}" logits: "{logits}"\n' + "\n".join(items))
    return path


def layer(name, kind, inputs):
    return f'item {{ operator {{ name: "{name}" kind: "{kind}" ' + " ".join(f'input: "{i}"' for i in inputs) + " } }"


def weight(name, shape):
    return f'item {{ weight {{ name: "{name}" shape: {shape} fan_in: 8 }} }}'


def perceptron(name, inputs, outputs):
    """x [16, inputs] times a weight."""
    return text_model(name, [f'item {{ input {{ name: "x" shape: [16, {inputs}] }} }}',
                             weight("w", [outputs, inputs]), layer("y", "matmul", ["x", "w"])], "y")


# ------------------------------------------------------------------------------------ folded batch normalisation


def test_a_default_export_is_warned_of_and_not_trained():
    pattern = r"folded batch normalisation into 3 layers \('conv1', 'conv2', \.\.\.\)(?s:.*)dynamo=False.*optimize=False"
    model = exported("default")
    for line in (f"import {model}", f"plan {model} {ELSEWHERE} -o far.textproto",
                 f"compare {model} {ELSEWHERE}"):
        said = partita(line).out
        check(re.search("warning: .*" + pattern, said), f"partita {line}: {said}")
        check(re.search(pattern, answer(line, "warnings")["warnings"][0]), line)
    plan = plan_of(model, "folded.plan.textproto")
    refuses(f"run {plan} --steps 2", 3, pattern + r".*--accept_folded")
    trained = partita(f"run {plan} --steps 2 --accept_folded")
    check(re.search(pattern, trained.err), f"no warning in {trained.err}")
    check(len(answer(f"run {plan} --steps 2 --accept_folded", "warnings")["warnings"]) == 1, "no warning as JSON")


def test_the_native_form_keeps_what_was_folded():
    partita(f"import {exported('default')} -o folded.textproto")
    check(pathlib.Path("folded.textproto").read_text().count("folded_batch_norm") == 3, "not in the text")
    check("folded batch norm" in answer("import folded.textproto", "warnings")["warnings"][0], "no warning")
    partita("import folded.textproto --batch 8 -o again.textproto")
    refuses(f"run {plan_of('again.textproto', 'again.plan.textproto')} --steps 2", 3, "--accept_folded")


def test_an_export_in_evaluation_form_is_noted():
    found = answer(f"import {exported('torchscript_evaluation')}", "notes warnings")
    check(found["warnings"] == [], f"{found['warnings']}")
    check(any("looks as if batch normalisation had been folded" in note for note in found["notes"]), f"{found['notes']}")
    partita(f"run {plan_of(exported('torchscript_evaluation'), 'evaluation.plan.textproto')} --steps 2")


def test_the_recipe_of_the_readme_keeps_batch_normalisation():
    recipe = re.search(r"torch\.onnx\.export\((.|\n)*?\)\n", pathlib.Path(f"{harness.SOURCES}/README.md").read_text())
    generated = pathlib.Path(data("batch_norm/generate.py")).read_text()
    for option in ("dynamo", "do_constant_folding"):
        check(f"{option}=False" in recipe.group(0) and f'"{option}": False' in generated, f"{recipe.group(0)}")
    check("training=torch.onnx.TrainingMode.TRAINING" in recipe.group(0), f"{recipe.group(0)}")
    model = exported("torchscript_training")
    found = answer(f"import {model}", "operators notes warnings")
    kept = [op["name"] for op in found["operators"] if op["kind"] == "batch_normalize"]
    check(kept == ["bn1", "norm", "bn2"] and found["warnings"] == found["notes"] == [], f"{kept} {found}")
    partita(f"run {plan_of(model, 'recipe.plan.textproto')} --steps 2")


# ---------------------------------------------------------------------------------------------------------- loss


def test_the_loss_is_said():
    model = exported("torchscript_training")
    for line in (f"import {model}", f"plan {model} {ELSEWHERE} -o loss.textproto", f"compare {model} {ELSEWHERE}"):
        check(f"loss: {CLASSES}\n" in partita(line).out, line)
        found = answer(line, "loss classes")
        check(found["loss"] == CLASSES and found["classes"] == 5, f"{found}")
    plan = plan_of(model, "said.plan.textproto")
    trained = partita(f"run {plan} --steps 2")
    check(f"loss: {CLASSES}\n" in trained.err and CLASSES in trained.out, f"{trained.err}{trained.out}")
    check(answer(f"run {plan} --steps 2", "loss")["loss"] == CLASSES, "not as JSON")


def test_what_cannot_be_classes_is_refused():
    convolution = text_model("segmentation", [
        'item { input { name: "x" shape: [16, 3, 8, 8] } }', weight("w", [4, 3, 1, 1]),
        layer("y", "conv2d", ["x", "w"])], "y")
    supported = r".*Supported is mean cross-entropy over classes: an output \[16, classes\]"
    for model, why in ((perceptron("regression", 8, 1), r"'y' is \[16,1\]: one score"),
                       (perceptron("autoencoder", 32, 32), r"'y' is \[16,32\]: .*as many elements as the input"),
                       (convolution, r"'y' is \[16,4,8,8\]: it has 4 dimensions")):
        for line in (f"import {model}", f"plan {model} {ELSEWHERE}", f"compare {model} {ELSEWHERE}"):
            refuses(line, 3, f"{model}.*" + why + supported)
    # What can be classes is, once the user says so; a plan remembers that it was said.
    check("over 32 classes" in partita("import autoencoder.textproto --loss cross_entropy").out, "not taken")
    partita(f"plan autoencoder.textproto --loss cross_entropy --strategy data_parallel {QUICK} -o told.textproto")
    check("over 32 classes" in partita("run told.textproto --steps 2").out, "not trained")
    refuses("import regression.textproto --loss cross_entropy", 3, "one score")
    refuses("import regression.textproto --loss squares", 2, r"squares.*cross_entropy")


# ------------------------------------------------------------------------------------------------------- weights


def test_a_side_file_that_is_absent_matters_where_weights_do():
    model = exported("unoptimized")
    for line in (f"import {model}", f"plan {model} {ELSEWHERE} -o absent.textproto", f"compare {model} {ELSEWHERE}"):
        check(re.search(r"note: the values of 1 weights are not there.*'unoptimized\.onnx\.data'", partita(line).out), line)
    plan = plan_of(model, "absent.plan.textproto")
    for verb in ("run", "verify"):
        refuses(f"{verb} {plan}", 3, r"onnx' has no values for 1 of its weights.*'unoptimized\.onnx\.data' is absent"
                                     r".*--load.*partita import")
    # What the message says: a model without weights starts from initial values.
    said = partita(f"import {model} -o without.textproto").out
    check("values of 18 of 19 weights" in said and "initial values of the others" in said, f"{said}")
    partita(f"run {plan} --model without.textproto --steps 1 --save start.safetensors")
    partita(f"run {plan} --load start.safetensors --steps 1")


def test_import_keeps_the_weights_of_an_onnx_model():
    for options in ("", "--batch 7", "--freeze_bn"):
        found = answer(f"import {exported('torchscript_training')} {options} -o kept.textproto",
                       "weights weights_with_values weights_file written")
        check(found["weights_with_values"] == found["weights"] > 18, f"{found}")
        check(re.fullmatch(r"kept\.[0-9a-f]{16}\.safetensors", found["weights_file"]), f"{found}")
        check(found["weights_file"] in pathlib.Path("kept.textproto").read_text(), "not named")
        check(pathlib.Path(found["weights_file"]).stat().st_size > 4 * 400, "no values")
    check("no values of weights" in partita("import lenet -o zoo.textproto").out, "zoo")
    found = answer("import lenet -o zoo.textproto", "weights_with_values weights_file")
    check(found["weights_with_values"] == 0 and found["weights_file"] is None, f"{found}")


def test_a_plan_in_the_place_of_a_model_is_named():
    plan, machine = plan_of("lenet --batch 8", "lenet.plan.textproto"), "machine.textproto"
    for line in (f"compare {plan}", f"plan {plan}", f"import {plan}", f"profile {plan}"):
        refuses(line, 3, rf"'{plan}' is not a model: it is a plan, of the model 'lenet' at batch 8.*"
                         rf"`partita compare lenet {plan} --batch 8`")
    partita(f"compare lenet {plan} --batch 8 --devices 2 --oversubscribe --profile_time 0 --evaluations 10")
    partita(f"machine create --nodes 1 --gpus 2 --gpu h100-sxm -o {machine}")
    refuses(f"plan {machine}", 3, rf"it is a machine: `--machine {machine}`")


def test_a_plan_remembers_how_far_its_model_is_unrolled():
    partita("plan rnnlm_tiny --unroll 2 --batch 4 --devices 1 --profile_time 0 --measure_time 0 -o two.plan.textproto")
    check("unroll: 2" in pathlib.Path("two.plan.textproto").read_text(), "not in the plan")
    partita("verify two.plan.textproto")
    partita("import rnnlm_tiny --unroll 2 --batch 4 -o two.textproto")
    partita("verify two.plan.textproto --model two.textproto")
    refuses("plan lenet --unroll 2 -o no.plan.textproto", 2, r"'lenet' has no steps to unroll.*rnnlm")
    refuses("plan rnnlm --unroll 0 -o no.plan.textproto", 2, r"unroll")


def test_a_plan_remembers_the_sizes_of_its_model():
    sizes = "--size 350m --layers 2 --width 24 --heads 4 --sequence 6 --vocabulary 30"
    partita(f"plan gpt {sizes} --batch 4 --devices 2 --profile_time 0 --measure_time 0 -o small.plan.textproto")
    text = pathlib.Path("small.plan.textproto").read_text()
    for line in ('size: "350m"', "layers: 2", "width: 24", "heads: 4", "sequence: 6", "vocabulary: 30"):
        check(line in text, f"no {line} in the plan")
    partita("verify small.plan.textproto")
    partita("simulate small.plan.textproto")
    partita(f"compare gpt {sizes} --batch 4 --devices 2 --profile_time 0 --evaluations 20 small.plan.textproto")
    refuses("plan gpt --heads 7 -o no.plan.textproto", 2, r"7 heads do not divide a width of 768: try 6 or 8")
    refuses("plan lenet --layers 7 -o no.plan.textproto", 2, r"'lenet' has no sizes to choose.*gpt")
    refuses("plan gpt --size 7b -o no.plan.textproto", 2, r"size.*6\.7b")


def test_a_checkpoint_moved_onto_the_side_file_is_noticed():
    side = answer(f"import {exported('torchscript_training')} -o mine.textproto", "weights_file")["weights_file"]
    plan = plan_of("mine.textproto", "mine.plan.textproto")
    trained = answer(f"run {plan} --steps 2 --save trained.safetensors", "losses")["losses"]
    pathlib.Path(side).unlink()
    pathlib.Path("trained.safetensors").rename(side)
    pattern = r"values in '.*" + side + r"' have the hash ([0-9a-f]{64}), .*written with ([0-9a-f]{64}).*--load"
    for verb in ("run", "verify", "import -o copy.textproto"):
        words = verb.split()
        error = refuses(" ".join([words[0], "mine.textproto" if words[0] == "import" else plan] + words[1:]), 3, pattern)
    found = re.search(pattern, error["error"]["message"])
    check(found.group(2)[:16] in side and found.group(1) != found.group(2), f"{error}")
    # What the message says: the model written anew has its old values, and the checkpoint can be loaded.
    partita(f"import {exported('torchscript_training')} -o mine.textproto")
    check(answer(f"run {plan} --steps 2 --save trained", "losses")["losses"] == trained, "it starts otherwise")
    partita(f"run {plan} --steps 2 --load trained")


def test_weights_that_do_not_fit_in_memory_are_refused_before_they_are_taken():
    path = perceptron("giant", 1 << 20, 1 << 20)
    path.write_text(path.read_text().replace("fan_in: 8", "stored: true")
                    + '\nweights_file: "giant.safetensors" weights_hash: "0123456789abcdef"')
    header = json.dumps({"w": {"dtype": "F32", "shape": [1 << 20, 1 << 20], "data_offsets": [0, 1 << 42]}}).encode()
    try:
        with open("giant.safetensors", "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + (1 << 42))
    except OSError as error:
        raise harness.Skipped(f"no sparse file of 4 TB here: {error}") from error
    refuses(f"import {path} --loss cross_entropy -o copy.textproto", 4, r"weights of '.*giant.*4398046511104 bytes")
    # Without a file to write, the model is good: nothing of the weights is read.
    partita(f"import {path} --loss cross_entropy")
    os.remove("giant.safetensors")


if __name__ == "__main__":
    harness.run(globals(), "ModelTest")
