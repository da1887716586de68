#!/usr/bin/env python3
"""tests/bench/kernel_table.py reads what cuobjdump prints: resources, and the loop that moves the bytes."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import kernel_table  # noqa: E402

NAME = "_ZN7partita51_GLOBAL__N__0a1b2c3d_18_launch_elements_cu_4e5f60717ForEachINS_17EqualIndexElementEiEEvT_T0_"

RESOURCES = f"""
Fatbin elf code:
================
arch = sm_90

Resource usage:
 Common:
  GLOBAL:0
 Function {NAME}:
  REG:14 STACK:8 SHARED:1024 LOCAL:0 CONSTANT[0]:564 TEXTURE:0 SURFACE:0 SAMPLER:0
"""

# From cuobjdump 13.5, sm_90, without the lines of bits and most NOPs: a loop over elements with two loops inside.
SASS = """  Function : _ZN7partita51_GLOBAL__N__0a1b2c3d_18_launch_elements_cu_4e5f60717ForEachINS_17EqualIndexElementEiEEvT_T0_
  .headerflags	@"EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
  /*0000*/  LDC R1, c[0x0][0x28] ;
  /*0010*/  S2R R3, SR_CTAID.X ;
  /*0020*/  ULDC UR4, c[0x0][0x230] ;
  /*0030*/  S2R R0, SR_TID.X ;
  /*0040*/  IMAD R3, R3, 0x100, R0 ;
  /*0050*/  ISETP.GE.AND P0, PT, R3, UR4, PT ;
  /*0060*/  @P0 EXIT ;
  /*0070*/  LDC R0, c[0x0][0xc] ;
  /*0080*/  ULDC.64 UR4, c[0x0][0x208] ;
  /*0090*/  ULDC.64 UR6, c[0x0][0x210] ;
  /*00a0*/  ULDC.64 UR12, c[0x0][0x210] ;
  /*00b0*/  LDC.64 R4, c[0x0][0x210] ;
  /*00c0*/  IMAD.WIDE R4, R3, 0x4, R4 ;
  /*00d0*/  LDG.E R9, desc[UR4][R4.64] ;
  /*00e0*/  SHF.R.S32.HI R8, RZ, 0x1f, R3.reuse ;
  /*00f0*/  BSSY B0, 0x1d0 ;
  /*0100*/  IMAD.MOV.U32 R2, RZ, RZ, R3 ;
  /*0110*/  IMAD.MOV.U32 R6, RZ, RZ, R8 ;
  /*0120*/  ISETP.GE.U32.AND P0, PT, R2.reuse, 0x1, PT ;
  /*0130*/  IADD3 R2, P1, R2, -0x1, RZ ;
  /*0140*/  ISETP.GE.AND.EX P0, PT, R6.reuse, RZ, PT, P0 ;
  /*0150*/  IADD3.X R6, R6, -0x1, RZ, P1, !PT ;
  /*0160*/  @!P0 BRA 0x1c0 ;
  /*0170*/  LEA R4, P1, R2, UR6, 0x2 ;
  /*0180*/  LEA.HI.X R5, R2, UR7, R6, 0x2, P1 ;
  /*0190*/  LDG.E R4, desc[UR4][R4.64] ;
  /*01a0*/  ISETP.NE.AND P1, PT, R4, R9, PT ;
  /*01b0*/  @P1 BRA 0x120 ;
  /*01c0*/  BSYNC B0 ;
  /*01d0*/  LDC.64 R6, c[0x0][0x228] ;
  /*01e0*/  BSSY B0, 0x2c0 ;
  /*01f0*/  IMAD.MOV.U32 R11, RZ, RZ, R3 ;
  /*0200*/  IMAD.MOV.U32 R2, RZ, RZ, R8 ;
  /*0210*/  IADD3 R11, P1, R11, 0x1, RZ ;
  /*0220*/  IMAD.X R2, RZ, RZ, R2, P1 ;
  /*0230*/  ISETP.GE.U32.AND P1, PT, R11, R6, PT ;
  /*0240*/  ISETP.GE.AND.EX P1, PT, R2, R7, PT, P1 ;
  /*0250*/  @P1 BRA 0x2b0 ;
  /*0260*/  LEA R4, P1, R11, UR12, 0x2 ;
  /*0270*/  LEA.HI.X R5, R11, UR13, R2, 0x2, P1 ;
  /*0280*/  LDG.E R4, desc[UR4][R4.64] ;
  /*0290*/  ISETP.NE.AND P1, PT, R4, R9, PT ;
  /*02a0*/  @P1 BRA 0x210 ;
  /*02b0*/  BSYNC B0 ;
  /*02c0*/  ISETP.GE.U32.AND P1, PT, R11, R6, PT ;
  /*02d0*/  IMAD.SHL.U32 R6, R3.reuse, 0x4, RZ ;
  /*02e0*/  ULDC.64 UR8, c[0x0][0x220] ;
  /*02f0*/  ULDC.64 UR10, c[0x0][0x218] ;
  /*0300*/  SHF.L.U64.HI R8, R3, 0x2, R8 ;
  /*0310*/  IMAD R3, R0, 0x100, R3 ;
  /*0320*/  IADD3 R4, P2, R6.reuse, UR8, RZ ;
  /*0330*/  ULDC UR8, c[0x0][0x230] ;
  /*0340*/  IADD3 R6, P3, R6, UR10, RZ ;
  /*0350*/  ISETP.GE.AND.EX P1, PT, R2, R7, PT, P1 ;
  /*0360*/  IADD3.X R5, R8.reuse, UR9, RZ, P2, !PT ;
  /*0370*/  SEL R9, RZ, 0x1, P0 ;
  /*0380*/  IADD3.X R7, R8, UR11, RZ, P3, !PT ;
  /*0390*/  SEL R11, R11, 0xffffffff, !P1 ;
  /*03a0*/  STG.E desc[UR4][R4.64], R9 ;
  /*03b0*/  ISETP.GE.AND P0, PT, R3, UR8, PT ;
  /*03c0*/  STG.E desc[UR4][R6.64], R11 ;
  /*03d0*/  @!P0 BRA 0xb0 ;
  /*03e0*/  EXIT ;
  /*03f0*/  BRA 0x3f0;
  /*0410*/  NOP;
  ..........
"""


def instructions(*lines):
    """A function's instructions, 16 bytes apart, from 0."""
    text = "Function : f\n" + "".join(f"  /*{16 * k:04x}*/  {line} ;\n" for k, line in enumerate(lines))
    return kernel_table.functions_of(text)["f"]


class KernelTableTest(unittest.TestCase):
    def test_resources_are_read(self):
        self.assertEqual(kernel_table.resources_of(RESOURCES), {NAME: {"registers": 14, "stack": 8, "shared": 1024}})

    def test_the_hot_loop_is_an_inner_one(self):
        code = kernel_table.functions_of(SASS)[NAME]
        loop = kernel_table.hot_loop(code)
        self.assertEqual((loop[0].address, loop[-1].address), (0x120, 0x1b0))
        figures = kernel_table.figures_of({"registers": 14, "stack": 8, "shared": 1024}, code)
        self.assertEqual(figures, {"registers": 14, "stack": 8, "shared": 1024, "local": 0, "instructions": 64, "loop": 10,
                                   "loop_bytes": 4, "loop_written": 0, "loop_calls": 0})

    def test_a_loop_that_moves_nothing_belongs_to_the_one_around_it(self):
        loop = kernel_table.hot_loop(instructions(
            "MOV R1, R2", "IADD3 R1, R1, 0x1, RZ", "@P0 BRA 0x10", "LDG.E.128 R4, desc[UR4][R4.64]",
            "STG.E.64 desc[UR4][R4.64], R9", "@!P1 BRA 0x0", "EXIT", "BRA 0x70"))
        self.assertEqual(len(loop), 6)
        self.assertEqual(kernel_table.moved_bytes(loop), 24)

    def test_code_behind_the_loop_that_returns_to_it_counts(self):
        loop = kernel_table.hot_loop(instructions(
            "MOV R1, R2", "LDG.E R4, desc[UR4][R4.64]", "@P0 BRA 0x50", "@P1 BRA 0x10", "EXIT",
            "CALL.REL.NOINC 0x70", "BRA 0x30", "RET.REL.NODEC R2 0x0"))
        self.assertEqual([i.kind() for i in loop], ["LDG", "BRA", "BRA", "CALL", "BRA"])

    def test_threads_that_wait_for_each_other_go_on_where_they_meet(self):
        loop = kernel_table.hot_loop(instructions(
            "BSSY B0, 0x40", "LDG.E R4, desc[UR4][R4.64]", "@P0 BRA 0x10", "BSYNC B0", "STG.E desc[UR4][R4.64], R4", "EXIT"))
        self.assertEqual([i.kind() for i in loop], ["LDG", "BRA"])

    def test_local_memory_is_counted_and_a_kernel_without_a_loop_has_none(self):
        figures = kernel_table.figures_of({}, instructions("STL [R1], R2", "LDL.64 R2, [R1]", "STG.E desc[UR4][R4.64], R2",
                                                           "EXIT", "BRA 0x40", "NOP"))
        self.assertEqual(figures, {"local": 2, "instructions": 5})

    def test_names_are_readable(self):
        for name, wanted in [
                ("void partita::(anonymous namespace)::ReadThenWrite<partita::ReluElement, int>(partita::ReluElement, int)",
                 "ReadThenWrite<ReluElement, int>"),
                ("void partita::(anonymous namespace)::ToBlocks<(partita::NumberType)0, (partita::NumberType)2, (int)4>"
                 "(partita::Conversion, partita::ImageBlocks, long)", "ToBlocks<float32, bfloat16, 4>")]:
            self.assertEqual(kernel_table.readable(name), wanted)

    def test_bytes_of_an_element_follow_from_the_definition(self):
        self.assertEqual(kernel_table.element_bytes("ReadThenWriteVectors<SgdElement, int>"), 20)
        self.assertEqual(kernel_table.element_bytes("ConvertVectors<float32, float16, int>"), 6)
        self.assertIsNone(kernel_table.element_bytes("ForEach<LrnElement, int>"))

    def test_elements_are_counted_by_what_is_written(self):
        figures = {"loop": 40, "loop_bytes": 48, "loop_written": 16}  # 16 of the bytes are a bias
        self.assertEqual(kernel_table.per_element("ReadThenWrite<BiasElement, int>", figures), 10.0)
        self.assertEqual(kernel_table.per_element("ReduceRows<ChannelSumReduction>", dict(figures, loop_written=0)), 3.3)
        self.assertIsNone(kernel_table.per_element("ForEach<LrnElement, int>", figures))
        self.assertIsNone(kernel_table.per_element("ReadThenWrite<BiasElement, int>", {"loop": 40}))

    def test_figures_of_before_stand_beside_and_unchanged_kernels_may_be_left_out(self):
        now = {"registers": 20, "stack": 0, "local": 0, "shared": 0, "instructions": 50}
        then = dict(now, registers=40, stack=104)
        kernels = {"A<F, int>": now, "A<F, long>": now, "B": now, "C": now}
        lines = kernel_table.table(kernels, {"A<F>": then, "B": now}, True)[2:]
        self.assertEqual(lines[0].split(" | ")[:3], ["| A<F, int>", "40 -> 20", "104 -> 0"])
        self.assertEqual([line.split(" | ")[0] for line in lines],
                         ["| A<F, int>", "| A<F, long>", "| C (not there before)"])
        self.assertEqual(len(kernel_table.table(kernels, None, False)), 6)

    def test_a_kernel_that_is_new_is_compared_with_another_of_its_functor(self):
        figures = {"registers": 20, "stack": 0, "local": 0, "shared": 0, "instructions": 50}
        lines = kernel_table.table({"ReadThenWriteVectors<F, int>": figures, "ReduceRows<F, int>": figures},
                                   {"ForEach<F>": dict(figures, registers=30)}, False)
        self.assertTrue(lines[2].startswith("| ReadThenWriteVectors<F, int> (before: ForEach<F>) | 30 -> 20 |"), lines[2])
        self.assertTrue(lines[3].startswith("| ReduceRows<F, int> (not there before) | 20 |"), lines[3])

    def test_what_is_missing_is_said(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(kernel_table.main(["--cuobjdump", "/no/such/cuobjdump", "x.o"]), 1)
        self.assertIn("there is no /no/such/cuobjdump", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
