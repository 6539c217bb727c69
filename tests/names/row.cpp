#include "names/row.h"

namespace gspmd::names {

namespace {

void check_value(const Array& seen, const Value& wanted) {
  if (!wanted.dtype.empty()) CHECK(std::string(dtype_name(seen.dtype())) == wanted.dtype);
  CHECK(seen.dims() == wanted.dims);
  if (seen.dims() != wanted.dims) return;
  for (size_t i = 0; i < wanted.values.size(); ++i) {
    INFO("element " << i);
    const auto flat = static_cast<int64_t>(i);
    std::complex<double> value = 0;
    if (seen.dtype() == DType::c64)
      value = seen.data<std::complex<float>>()[i];
    else
      value = seen.at(flat);
    const std::complex<double> number = wanted.values[i];
    if (std::isinf(number.real())) {
      CHECK(value.real() == number.real());
      continue;
    }
    // The pages give four digits behind the point.
    CHECK(std::abs(value - number) <= 6e-5 + 1e-5 * std::abs(number));
  }
}

void check_values(const std::vector<Array>& seen, const Values& gives) {
  if (gives.empty()) return;
  CHECK(seen.size() == gives.size());
  for (size_t i = 0; i < std::min(seen.size(), gives.size()); ++i) {
    INFO("result " << i);
    check_value(seen[i], gives[i]);
  }
}

}  // namespace

void check_row(int line, const char* code, const Values& gives,
               const std::function<std::vector<Tensor>()>& run) {
  INFO("line " << line << ": " << code);
  check_values(reference_results(run), gives);
}

void check_row(int line, const char* code, const Values& gives,
               const std::function<std::vector<Array>()>& run) {
  INFO("line " << line << ": " << code);
  check_values(run(), gives);
}

void check_row(int line, const char* code, const std::string& gives,
               const std::function<std::string()>& run) {
  INFO("line " << line << ": " << code);
  CHECK(run() == gives);
}

}  // namespace gspmd::names
