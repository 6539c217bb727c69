#include "custom_mutate.h"
#include "gspmd/base/error.h"
#include "gspmd/ir/module.h"
#include "gspmd/ir/text.h"
#include "gspmd/stablehlo/text.h"
#include "mutate_stablehlo.h"
#include "report.h"

namespace gspmd {
namespace {

// Any bytes are refused with a UserError, or read into a valid module whose text is a fixed point.
void check(std::string_view input) {
  std::unique_ptr<Module> module;
  try {
    module = parse_stablehlo(input, "fuzz", {.any_entry = true});
  } catch (const UserError&) {
    return;
  }
  verify_module(*module);
  std::string printed;
  try {
    printed = to_stablehlo(*module);
  } catch (const UserError&) {  // an element type without a word, constants left out
    return;
  }
  std::unique_ptr<Module> again;
  try {
    again = parse_stablehlo(printed, "printed", {.any_entry = true});
  } catch (const UserError& error) {
    report(error.what(), printed);
  }
  if (to_stablehlo(*again) != printed) report("printed differs from printed again", printed);
}

}  // namespace
}  // namespace gspmd

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return gspmd::fuzz::custom_mutate(data, size, max_size, seed, gspmd::fuzz::mutate_stablehlo);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) gspmd::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
