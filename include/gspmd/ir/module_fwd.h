#pragma once

// Names of the graph's classes, for headers that only pass them on: gspmd/ir/module.h costs every
// file that includes it a sixth of a second.

namespace gspmd {

class Computation;
class Module;
class Node;

}  // namespace gspmd
