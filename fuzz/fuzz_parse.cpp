#include "gspmd/base/error.h"
#include "gspmd/ir/text.h"
#include "report.h"

namespace gspmd {
namespace {

// Any bytes are refused with a UserError, or read into a module whose text is a fixed point.
void check(std::string_view input) {
  std::unique_ptr<Module> module;
  try {
    module = parse_module(input, "fuzz");
  } catch (const UserError&) {
    return;
  }
  const std::string printed = to_text(*module);
  std::unique_ptr<Module> again;
  try {
    again = parse_module(printed, "printed");
  } catch (const UserError& error) {
    report(error.what(), printed);
  }
  if (to_text(*again) != printed) report("printed differs from printed again", printed);
  if (!structurally_equal(*module, *again)) report("reads as another module", printed);
}

}  // namespace
}  // namespace gspmd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) gspmd::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
