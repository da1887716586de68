// Prints the names of the backends that run here.
#include <iostream>

#include "runtime/backend/backends.h"

int main() {
  for (const partita::BackendRow& row : partita::Backends()) {
    if (partita::MakeBackend(row.name).ok()) std::cout << row.name << "\n";
  }
}
