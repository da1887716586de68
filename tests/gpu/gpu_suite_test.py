#!/usr/bin/env python3
"""gpu_suite_test.py PROGRAM DATA PARTITA [TEST_LIBRARY]: what the GPU suite says of itself, and without a GPU; on another backend its sections run."""
import json
import subprocess
import sys
import unittest

PROGRAM, DATA, PARTITA, TEST_LIBRARY = (sys.argv[1:] + [""])[:4]


def run(*arguments):
    return subprocess.run([PROGRAM, "--data", DATA, *arguments], capture_output=True, text=True, check=False)


def report_of(done):
    report = json.loads(done.stdout)
    assert report["suite"] == "partita gpu_suite" and report["schema_version"] == 1, report
    counts = {state: sum(section["state"] == state for section in report["sections"])
              for state in ("passed", "failed", "skipped")}
    assert {state: report[state] for state in counts} == counts, report
    for section in report["sections"]:
        assert {"name", "description", "state", "seconds"} <= section.keys(), section
        wanted = {"passed": "details", "failed": "failures", "skipped": "reason"}[section["state"]]
        assert section[wanted] or section["state"] == "passed", section
    return report


class GpuSuite(unittest.TestCase):
    def test_list_names_every_section(self):
        names = [line.split()[0] for line in run("--list").stdout.splitlines()]
        self.assertEqual(names[:4], ["machine", "conformance", "references", "virtual_devices"])
        self.assertTrue({"lenet", "alexnet", "pytorch"} <= set(names))

    def test_without_a_gpu_every_section_is_skipped_with_its_reason(self):
        if run("--sections", "machine").returncode == 0:
            self.skipTest("there is a GPU here; tools/gpu_suite.sh runs the suite")
        done = run()
        self.assertEqual(done.returncode, 77, done.stderr)
        report = report_of(done)
        names = [line.split()[0] for line in run("--list").stdout.splitlines()]
        self.assertEqual([section["name"] for section in report["sections"]], names)
        self.assertEqual({section["state"] for section in report["sections"]}, {"skipped"})
        for section in report["sections"]:
            self.assertGreater(len(section["reason"]), 20, section)

    def test_sections_run_on_the_reference_backend(self):
        done = run("--backend", "reference", "--sections", "conformance,mixed_devices", "--devices", "2", "--plans", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        conformance, plans = report_of(done)["sections"]
        self.assertGreater(len(conformance["details"]["cases"]), 1)
        self.assertEqual(plans["details"]["random"][0]["equal"], 1)
        self.assertGreater(plans["details"]["experts"][0]["plans"], 3)

    def test_copies_that_several_backends_round_apart_are_equal(self):
        done = run("--backend", "cpu", "--sections", "mixed_devices", "--devices", "4", "--plans", "100")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nccl_sections_run_with_the_test_library(self):
        if not TEST_LIBRARY:
            self.skipTest("this build has no nccl communicator")
        done = run("--backend", "reference", "--sections", "nccl,nccl_test_library,several_gpus", "--devices", "2", "--plans", "2",
                   "--nccl_library", TEST_LIBRARY, "--nccl_test_library", TEST_LIBRARY)
        self.assertEqual(done.returncode, 0, done.stderr)
        one_rank, plans, of_gpus = report_of(done)["sections"]
        self.assertEqual(one_rank["details"]["collectives"], 48)
        for section in (plans, of_gpus):
            self.assertEqual(section["details"]["communicator"], "nccl")
            self.assertEqual(section["details"]["random"][0]["equal"], 1)

    def test_the_program_plans_proves_trains_and_compares(self):
        # Of AlexNet there is nothing in a precision that cores do not have.
        done = run("--backend", "cpu", "--sections", "program", "--precisions", "tf32", "--steps", "3", "--partita", PARTITA)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        details = report_of(done)["sections"][0]["details"]
        self.assertEqual([(one["model"], one["batch"]) for one in details["runs"]], [("lenet", 64)])
        for one in details["runs"]:
            self.assertTrue(one["equal"])
            for key in ("predicted_ms", "trained_ms", "compared_ms"):
                self.assertGreater(one[key], 0)
        self.assertEqual(run("--backend", "cpu", "--sections", "program", "--partita", "none").returncode, 77)

    def test_wrong_usage(self):
        self.assertEqual(run("--sections", "speed").returncode, 2)
        self.assertEqual(run("--no_such_flag").returncode, 2)

    def test_a_model_is_printed(self):
        self.assertIn('kind: "conv2d"', run("model", "lenet").stdout)
        self.assertEqual(run("model", "lenett").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
