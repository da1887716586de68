#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/model/safetensors_header.h"

// Safetensors files as data, checkpoints and references; the format is described with its header.

namespace partita {

// A file's validated header and its bytes. Immutable, so every reader may be on another thread.
// Cheap to copy: copies share the bytes. Spans stay valid while any copy lives.
class SafetensorsFile {
 public:
  // Maps a file. Anything wrong with it is InvalidArgument naming the file and the tensor; an
  // absent or unreadable file as in MappedFile::Open. Memory used is bounded by the length of the
  // header.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // The same for bytes in memory; `name` is what messages call them.
  static absl::StatusOr<SafetensorsFile> Parse(std::string bytes, const std::string& name);

  const std::string& path() const;
  // Metadata without the checksums.
  const std::map<std::string, std::string>& metadata() const;
  // Reads all of the file and compares it with the checksums that WriteSafetensors put into it; OK
  // for a file that has none. InvalidArgument names the file and what differs.
  absl::Status CheckChecksums() const;
  // Entries keyed by name.
  const std::map<std::string, SafetensorsEntry>& tensors() const;
  bool Contains(const std::string& name) const { return tensors().contains(name); }

  // Checks as MappedFile::Check: to be asked after the use of Bytes and View; the others do it.
  absl::Status Check() const;

  // NotFound, naming the file and some of the tensors that it has.
  absl::StatusOr<const SafetensorsEntry*> Find(const std::string& name) const;
  absl::StatusOr<std::span<const std::byte>> Bytes(const std::string& name) const;

  // The elements of a tensor whose dtype is exactly T's: float F32, double F64, int64_t I64,
  // int32_t I32, uint8_t U8. InvalidArgument for another dtype.
  template <class T>
  absl::StatusOr<std::span<const T>> View(const std::string& name) const;

  // Elements [first, first + out.size()) of a tensor, each rounded to the nearest float (those of 16
  // bits are exact), BOOL as 0 and 1. InvalidArgument for a dtype that does not convert
  // (SafetensorsEntry), OutOfRange past the end.
  absl::Status CopyFloats(const std::string& name, int64_t first, std::span<float> out) const;
  // All elements of a tensor as float32.
  absl::StatusOr<std::vector<float>> Floats(const std::string& name) const;
  // All elements of a tensor of integers or BOOL. InvalidArgument for another dtype, and for a
  // number beyond int64.
  absl::StatusOr<std::vector<int64_t>> Integers(const std::string& name) const;

 private:
  struct State;
  explicit SafetensorsFile(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  static absl::StatusOr<SafetensorsFile> Validate(std::shared_ptr<State> state);

  std::shared_ptr<const State> state_;
};

// A tensor to write. The bytes are the caller's and must live until WriteSafetensors returns.
struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

// dtype from T, which is one of View's.
template <class T>
TensorToWrite MakeTensorToWrite(std::string name, std::vector<int64_t> shape,
                                std::span<const T> values);

// Writes a file that a reader sees whole or not at all, with a checksum for each tensor and one for
// the whole. Tensors are stored widest elements first, then by name, so that all are aligned.
// InvalidArgument for a name given twice, not UTF-8 or `__metadata__`, a negative dimension, an
// unknown dtype, or bytes that do not fill the shape; else as WriteFileAtomically.
absl::Status WriteSafetensors(const std::string& path, std::span<const TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace partita
