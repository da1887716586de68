#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/backend/algorithm_store.h"
#include "runtime/backend/backend.h"
#include "runtime/executor/executor_setup.h"
#include "tools/workflow/ranks.h"

namespace partita {

// The algorithms that GPUs have been measured to be fastest with, from and into a profile database.
class KeptAlgorithms {
 public:
  // Gives the devices that measure (GPUs) and have no store what the database `path` holds, or,
  // where there is no such file, an empty store; without such devices it reads nothing. Of several
  // processes, which all call this, all take what rank 0's file holds and measure nothing, so that
  // they choose alike. `ranks` may be null. The devices, and what is opened from them, do not
  // outlive it. Errors as ProfileDb.
  static absl::StatusOr<std::unique_ptr<KeptAlgorithms>> GiveTo(std::vector<PlacedDevice>& devices,
                                                                const std::string& path,
                                                                Ranks* ranks = nullptr);

  // Adds what has been measured since to the database, which is made if it is absent; does nothing
  // where that is nothing.
  absl::Status Save() const;

  // The same where the database is optional: if it may not be written, that is no error but a note
  // for people. Empty: no note.
  absl::StatusOr<std::string> SaveOrSay() const;

  // An executor, and what its devices' algorithms are in, which outlives it.
  struct WithExecutor {
    std::unique_ptr<KeptAlgorithms> algorithms;
    std::unique_ptr<Executor> executor;
    std::string note;  // the step's and SaveOrSay's
  };
  // OpenExecutor with devices that GiveTo has given what is known. What they measure at that is
  // saved; of several processes none does. What is opened later from `setup` finds it too.
  static absl::StatusOr<WithExecutor> Open(const Graph& graph, PlannedStep step,
                                           ExecutorSetup& setup, const std::string& path,
                                           Ranks* ranks = nullptr);

  const AlgorithmStore& store() const { return store_; }

 private:
  KeptAlgorithms(std::string path, const std::vector<AlgorithmStore::Entry>& known)
      : path_(std::move(path)), store_(known) {}

  const std::string path_;
  AlgorithmStore store_;
};

}  // namespace partita
