#pragma once

#include "tests/gpu/suite.h"

namespace partita {

// Describes the machine: GPUs, driver, libraries.
absl::StatusOr<SectionFindings> ExamineMachine(const SuiteOptions& options);
// Kernels against the reference kernels: the tests of tests/conformance on the backend.
absl::StatusOr<SectionFindings> CheckConformance(const SuiteOptions& options);
// References of tests/data/oracle and tests/data/references, made by PyTorch: on one device, and random plans on several.
absl::StatusOr<SectionFindings> CheckReferences(const SuiteOptions& options);
// Every expert strategy and random plans on virtual devices against the serial model.
absl::StatusOr<SectionFindings> CheckVirtualDevices(const SuiteOptions& options);
// The same where every second device is one of cores, on the reference backend: plans over GPU and
// CPU devices at once.
absl::StatusOr<SectionFindings> CheckMixedDevices(const SuiteOptions& options);
// Collectives of one rank through NCCL's own library.
absl::StatusOr<SectionFindings> CheckNccl(const SuiteOptions& options);
// Plans through the nccl communicator with the test library of NCCL's functions, whose ranks are
// virtual devices of this backend.
absl::StatusOr<SectionFindings> CheckNcclTestLibrary(const SuiteOptions& options);
// Plans over several GPUs of this machine through NCCL, one process for all, against the serial model.
absl::StatusOr<SectionFindings> CheckSeveralGpus(const SuiteOptions& options);
// Times of typical kernels with cold and with warm caches, and copies from pinned and from pageable
// host memory.
absl::StatusOr<SectionFindings> ProfileWork(const SuiteOptions& options);
// LeNet's training step on the backend against the cpu backend on all cores: time and losses.
absl::StatusOr<SectionFindings> CompareLenet(const SuiteOptions& options);
// AlexNet's training step by batch and precision: time, memory, and in how much of it nothing runs.
absl::StatusOr<SectionFindings> TimeAlexNet(const SuiteOptions& options);
// The program as a user has it: plans of LeNet, and of AlexNet by batch and precision, for this
// machine as it discovers it, proven (LeNet's), trained with and compared; what is predicted and
// measured.
absl::StatusOr<SectionFindings> UseProgram(const SuiteOptions& options);
// AlexNet's training step in turns with PyTorch's, through tests/bench/pytorch_race.py.
absl::StatusOr<SectionFindings> RaceWithPyTorch(const SuiteOptions& options);

}  // namespace partita
