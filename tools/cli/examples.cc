#include "tools/cli/verb_page.h"

namespace partita {
namespace {

struct VerbExamples {
  const char* verb;  // "" for the program
  const char* lines;
};
constexpr VerbExamples kExamples[] = {
    {"",
     "  partita plan alexnet --batch 32                the best plan for this machine\n"
     "  partita compare alexnet --batch 32 --measure  it against expert strategies\n"
     "  partita verify alexnet.plan.textproto          proves it equal to the model\n"
     "  partita run alexnet.plan.textproto --steps 20\n"
     "  partita plan model.onnx --machine p100-4x4     a machine that is not here\n"},
    {"plan",
     "  partita plan alexnet --batch 32 --devices 2\n"
     "  partita plan model.onnx --machine p100-4x4 --evaluations 10000\n"
     "  partita plan lenet --strategy data_parallel\n"
     "  partita plan lenet --dump_dir stages        what every stage makes, as files\n"},
    {"compare",
     "  partita compare alexnet --batch 32 --devices 2 --measure --verify\n"
     "  partita compare lenet mine.plan.textproto --machine p100-4x4 --devices 4\n"},
    {"run",
     "  partita run lenet.plan.textproto --data mnist/ --epochs 3 --eval_data mnist/\n"
     "  partita run alexnet.plan.textproto --steps 20 --save weights.safetensors\n"
     "  partita run alexnet.plan.textproto --steps 40 --resume weights.safetensors\n"
     "  partita run lenet.plan.textproto --steps 0 --load w.st --eval_data mnist/\n"
     "  partita run lenet.plan.textproto --epochs 90 --save w.st --save_every 10m\n"},
    {"launch",
     "  partita launch -n 2 run lenet.plan.textproto --steps 100\n"
     "  partita launch -n 4 --hosts hosts.txt run lenet.plan.textproto --data mnist/\n"},
    {"verify",
     "  partita verify lenet.plan.textproto\n"
     "  partita verify --quick alexnet.plan.textproto\n"
     "  partita verify --reference references/lenet --random_plans 20\n"},
    {"profile",
     "  partita profile alexnet --batch 32 --devices 2 --profile_time 300\n"
     "  partita profile --list                       what partita.profile.db has\n"
     "  partita profile --forget conv2d              what is then measured anew\n"},
    {"import",
     "  partita import model.onnx\n"
     "  partita import alexnet --batch 32 -o alexnet.textproto\n"},
    {"simulate", "  partita simulate lenet.plan.textproto --machine p100-4x4 -o lenet.json\n"},
    {"machine",
     "  partita machine show p100-4x4 --devices 4\n"
     "  partita machine discover -o machine.textproto\n"
     "  partita machine create --nodes 2 --gpus 8 --gpu h100-sxm -o machine.textproto\n"},
    {"machine show",
     "  partita machine show p100-4x4 --devices 4\n"
     "  partita machine show h100-64x8\n"},
    {"machine discover", "  partita machine discover --devices 2 -o machine.textproto\n"},
    {"machine create",
     "  partita machine create --nodes 2 --gpus 8 --gpu h100-sxm --network 400Gb/s\n"
     "  partita machine create --nodes 16 --gpus 4 --gpu l40s --network 100Gb/s \\\n"
     "      --fabric ethernet --oversubscription 2 --set l40s.kernel_overhead_ns=4000\n"},
    {"list",
     "  partita list models\n"
     "  partita list strategies --json\n"},
    {"doctor",
     "  partita doctor\n"
     "  partita doctor --self_test\n"},
    {"completion",
     "  source <(partita completion bash)           in ~/.bashrc\n"
     "  partita completion zsh > ~/.zfunc/_partita   a folder of zsh's fpath\n"
     "  partita completion fish > ~/.config/fish/completions/partita.fish\n"},
    {"help",
     "  partita help plan\n"
     "  partita help --man > partita.1              then: man -l partita.1\n"},
};

}  // namespace

std::string ExamplesOf(const std::string& verb) {
  for (const VerbExamples& row : kExamples) {
    if (verb == row.verb) return row.lines;
  }
  return "";
}

}  // namespace partita
