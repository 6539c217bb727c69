#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "gspmd/ir/module.h"

namespace gspmd::testing {

// A random annotated program over 2 to 8 devices (num_partitions). The first number makes the mesh
// and the parameters, each other one an op with what it needs and the annotations on that: leaving
// out numbers leaves out ops.
std::unique_ptr<Module> random_program(std::span<const uint32_t> numbers);

// Empty where the program, partitioned, computes bit for bit what it computes whole, on the
// reference interpreter and on the executor, and moves as many bytes as predicted; else what
// differs.
std::string failure_of(const Module& module);

// Empty where the program, on the processes of this job, computes bit for bit what it computes in
// one, with collectives at once and between computations; else what differs. All processes call.
std::string failure_in_job(const Module& module);

// The smallest module found that still fails: annotations dropped, values made parameters or
// constants, results left out.
std::unique_ptr<Module> shrunk(std::unique_ptr<Module> module);

}  // namespace gspmd::testing
