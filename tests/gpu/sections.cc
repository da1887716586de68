#include "tests/gpu/sections.h"

namespace partita {
namespace {

constexpr SuiteSection kSections[] = {
    {"machine", ExamineMachine, "GPUs, driver and libraries"},
    {"conformance", CheckConformance, "kernels against the reference kernels"},
    {"references", CheckReferences, "training against PyTorch's results"},
    {"virtual_devices", CheckVirtualDevices,
     "experts and random plans on virtual devices against the serial model"},
    {"mixed_devices", CheckMixedDevices, "the same over GPU and CPU devices at once"},
    {"nccl", CheckNccl, "collectives of one rank through NCCL's own library"},
    {"nccl_test_library", CheckNcclTestLibrary,
     "plans through the nccl communicator, its ranks on one GPU, with a test library"},
    {"several_gpus", CheckSeveralGpus,
     "experts and random plans over the GPUs of this machine, through NCCL"},
    {"profiler", ProfileWork, "kernels with cold and warm caches, pinned and pageable copies"},
    {"lenet", CompareLenet, "LeNet's step on the GPU and on all cores"},
    {"alexnet", TimeAlexNet, "AlexNet's step by batch and precision, with gaps and memory"},
    {"program", UseProgram,
     "what users type: plan, verify, run and compare, predicted and measured"},
    {"pytorch", RaceWithPyTorch, "AlexNet's step in turns with PyTorch's"},
};

}  // namespace

std::span<const SuiteSection> SuiteSections() { return kSections; }

}  // namespace partita
