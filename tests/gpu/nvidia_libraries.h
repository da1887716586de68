#pragma once

#include <string>
#include <vector>

namespace partita {

// Opens cuBLASLt, cuDNN and NCCL from the first of the folders that has them, for programs that
// then ask for them by their plain names: the loader knows them by that. A folder is searched
// itself and in its subfolders cublas/lib, cudnn/lib, nccl/lib, cu13/lib and the like, which is how
// NVIDIA's Python wheels lie in site-packages/nvidia. Returns the files that were opened.
std::vector<std::string> OpenNvidiaLibraries(const std::vector<std::string>& folders);

}  // namespace partita
