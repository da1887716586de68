#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/support/file.h"
#include "graph/support/status_macros.h"
#include "graph/task/timeline.h"
#include "runtime/backend/backends.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/data/open_data_source.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/executor_setup.h"
#include "runtime/train/measured_timeline.h"
#include "runtime/train/trainer.h"
#include "tools/cli/text.h"
#include "tools/cli/verb.h"

namespace partita {
}  // namespace partita
