#pragma once

namespace partita {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace partita
