#pragma once

#include <random>
#include <vector>

#include "graph/parallel/device_topology.h"

namespace partita {

// "d0", "d1", ..
Device Gpu(int number);

// Links between "d0".. and switches, of few speeds and latencies, some of them shared media.
std::vector<Link> RandomLinks(int devices, int switches, int count, std::mt19937& random);

// Every device at a switch of its own, the switches in a row.
DeviceTopology Chain(int count);

// Switches of `width` devices each under one switch.
DeviceTopology TwoLevelTree(int count, int width);

}  // namespace partita
