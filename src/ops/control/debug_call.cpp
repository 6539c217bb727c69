#include "ops/control/debug_call.h"

#include <fmt/args.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <sstream>

#include "gspmd/base/error.h"
#include "gspmd/ir/batch_context.h"
#include "gspmd/ir/partition_context.h"
#include "gspmd/ops/builders.h"
#include "gspmd/ops/debug_calls.h"
#include "mesh/manual_digits.h"
#include "ops/common/batch.h"
#include "ops/common/check.h"

namespace gspmd {
namespace {

constexpr int64_t kShortened = 1000, kEdge = 3;  // as NumPy
constexpr int64_t kMostNamed = 4096;             // devices

// One element, or several in brackets, each with what stands behind the colon of its field.
struct Printed {
  const Array* array;
};

}  // namespace
}  // namespace gspmd

template <>
struct fmt::formatter<gspmd::Printed> {
  constexpr auto parse(format_parse_context& context) {
    auto end = context.begin();
    while (end != context.end() && *end != '}') ++end;
    spec_ = std::string_view(context.begin(), static_cast<size_t>(end - context.begin()));
    return end;
  }
  auto format(const gspmd::Printed& printed, format_context& context) const {
    const gspmd::Array& array = *printed.array;
    std::string text;
    add(array, 0, 0, array.size() > gspmd::kShortened, text);
    return std::copy(text.begin(), text.end(), context.out());
  }

 private:
  void add(const gspmd::Array& array, size_t dim, int64_t at, bool shortened,
           std::string& text) const {
    const gspmd::Dims& dims = array.shape().dims;
    if (dim == dims.size()) return add_element(array, at, text);
    text += '[';
    for (int64_t i = 0; i < dims[dim]; ++i) {
      if (i > 0) text += ", ";
      if (shortened && i == gspmd::kEdge && dims[dim] > 2 * gspmd::kEdge) {
        text += "..., ";
        i = dims[dim] - gspmd::kEdge;
      }
      add(array, dim + 1, at * dims[dim] + i, shortened, text);
    }
    text += ']';
  }
  void add_element(const gspmd::Array& array, int64_t i, std::string& text) const {
    const std::string field = spec_.empty() ? "{}" : fmt::format("{{:{}}}", spec_);
    const gspmd::DType dtype = array.dtype();
    if (dtype == gspmd::DType::pred)
      text += fmt::format(fmt::runtime(field), array.at(i) != 0);
    else if (gspmd::is_complex(dtype))
      text += dtype == gspmd::DType::c64
                  ? complex_text(field, array.data<std::complex<float>>(), i)
                  : complex_text(field, array.data<std::complex<double>>(), i);
    else if (gspmd::is_floating(dtype) && gspmd::dtype_size(dtype) <= 4)
      text += fmt::format(fmt::runtime(field), static_cast<float>(array.at(i)));
    else if (gspmd::is_floating(dtype))
      text += fmt::format(fmt::runtime(field), array.at(i));
    else
      text += fmt::format(fmt::runtime(field), static_cast<int64_t>(array.at(i)));
  }
  template <class Elements>
  static std::string complex_text(const std::string& field, const Elements& elements, int64_t i) {
    const auto& number = elements[static_cast<size_t>(i)];
    return fmt::format(fmt::runtime(field + " + " + field + "i"), number.real(), number.imag());
  }
  std::string spec_;
};

namespace gspmd {
namespace {

struct Output {
  std::mutex mutex;
  std::function<void(const std::string&)> write;
};

Output& output() {
  static Output output;
  return output;
}

void write_line(const std::string& line) {
  const std::lock_guard lock(output().mutex);
  if (output().write) return output().write(line);
  std::fwrite((line + "\n").data(), 1, line.size() + 1, stdout);
  std::fflush(stdout);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// The first elements of a part whose dims are these.
Array trimmed(const Array& array, const std::string& sizes) {
  Shape shape = array.shape();
  const std::vector<std::string> all = split(sizes, ',');
  for (size_t d = 0; d < all.size() && d < shape.dims.size(); ++d)
    shape.dims[d] = std::min<int64_t>(shape.dims[d], std::stoll(all[d]));
  if (shape == array.shape()) return array;
  Array result(shape);
  for (int64_t i = 0; i < result.size(); ++i) {
    int64_t from = 0, rest = i, stride = 1;
    for (size_t d = shape.dims.size(); d-- > 0; stride *= array.shape().dims[d]) {
      from += rest % shape.dims[d] * stride;
      rest /= shape.dims[d];
    }
    const auto size = static_cast<size_t>(dtype_size(array.dtype()));
    std::memcpy(result.bytes().data() + static_cast<size_t>(i) * size,
                array.bytes().data() + static_cast<size_t>(from) * size, size);
  }
  return result;
}

struct Speaker {
  std::string name;
  std::vector<Array> parts;
  Dims start = {};  // of the first part in its whole value; empty: not known
};

Speaker speaker_of(const DebugConfig& config, std::span<const Array> operands, int64_t device) {
  Speaker speaker{fmt::format("device {}", device), {operands.begin(), operands.end()}, {}};
  const std::vector<std::string> names = split(config.devices, ';');
  if (device >= std::ssize(names)) return speaker;
  const std::vector<std::string> halves = split(names[static_cast<size_t>(device)], '@');
  if (halves.empty()) return speaker;
  speaker.name = halves[0];
  const std::vector<std::string> sizes = split(halves.size() > 1 ? halves[1] : "", '/');
  for (size_t i = 0; i < sizes.size() && i < speaker.parts.size(); ++i)
    speaker.parts[i] = trimmed(speaker.parts[i], sizes[i]);
  for (const std::string& dim : split(sizes.empty() ? "" : sizes[0], ','))
    if (const size_t plus = dim.find('+'); plus != std::string::npos)
      speaker.start.push_back(std::stoll(dim.substr(plus + 1)));
  return speaker;
}

// ", at [2,0]": the element of the first part, counted in the whole value; empty for a scalar.
std::string place_text(const Speaker& speaker, int64_t at) {
  const Dims& dims = speaker.parts[0].shape().dims;
  if (dims.empty()) return "";
  std::vector<int64_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = at % dims[d] + (d < speaker.start.size() ? speaker.start[d] : 0);
    at /= dims[d];
  }
  return fmt::format(" at [{}]", fmt::join(index, ","));
}

void check(const DebugConfig& config, const Speaker& speaker) {
  const Array& holds = speaker.parts.at(0);
  for (int64_t i = 0; i < holds.size(); ++i) {
    if (holds.at(i) != 0) continue;
    execution_error("debug_check: {} (false{}, on {})",
                    debug_text(config.format, std::span(speaker.parts).subspan(1)),
                    place_text(speaker, i), speaker.name);
  }
}

void check_numbers(const DebugConfig& config, const Speaker& speaker) {
  for (size_t i = 1; i < speaker.parts.size(); ++i)
    if (speaker.parts[i].at(0) == 0) return;  // it was made of what was not finite before
  const Array& made = speaker.parts.at(0);
  for (int64_t i = 0; i < made.size(); ++i)
    if (!std::isfinite(made.at(i)))
      execution_error("check_numbers: {} makes {}{} of finite numbers, on {}", config.format,
                      made.at(i), place_text(speaker, i), speaker.name);
}

std::string device_name(const Mesh* mesh, int64_t device) {
  std::vector<std::string> coordinates;
  for (int64_t a = 0; mesh != nullptr && a < mesh->rank(); ++a)
    coordinates.push_back(fmt::format("{}={}", mesh->axes()[static_cast<size_t>(a)].name,
                                      tile_index({mesh->digit(a)}, mesh->order()->rank(device))));
  if (mesh == nullptr) return fmt::format("device {}", device);
  return fmt::format("device {} ({})", device, fmt::join(coordinates, ","));
}

// "device 3 (x=1,y=0)@2+2,6+0/3+0", for each device.
std::string names_of_devices(const std::vector<Shape>& shapes, const std::vector<Sharding>& layouts,
                             int64_t devices) {
  std::shared_ptr<const Mesh> mesh;
  for (const Sharding& s : layouts)
    if (!mesh && s.mesh() && s.mesh()->num_devices() == devices) mesh = s.mesh();
  std::vector<std::string> names;
  for (int64_t device = 0; device < devices && devices <= kMostNamed; ++device) {
    std::vector<std::string> sizes;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (layouts[i].is_manual() || shapes[i].dims.empty()) {
        sizes.emplace_back();
        continue;
      }
      const Box box = shard_box(shapes[i], layouts[i], device);
      std::vector<std::string> dims;
      for (size_t d = 0; d < box.size.size(); ++d)
        dims.push_back(fmt::format("{}+{}", box.held ? box.size[d] : 0, box.start[d]));
      sizes.push_back(fmt::format("{}", fmt::join(dims, ",")));
    }
    names.push_back(fmt::format("{}@{}", device_name(mesh.get(), device), fmt::join(sizes, "/")));
  }
  return fmt::format("{}", fmt::join(names, ";"));
}

}  // namespace

std::string device_names(const Mesh& mesh) {
  std::vector<std::string> names;
  for (int64_t device = 0; device < mesh.num_devices() && mesh.num_devices() <= kMostNamed;
       ++device)
    names.push_back(device_name(&mesh, device));
  return fmt::format("{}", fmt::join(names, ";"));
}

std::string debug_config_text(const DebugConfig& config) {
  std::string text = "\"";
  const std::string plain =
      fmt::format("{}|{}|{}", config.speakers == DebugSpeakers::once ? "once" : "every",
                  config.devices, config.format);
  for (const char c : plain) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text + "\"";
}

DebugConfig debug_config(const Node& node) {
  const auto found = node.attrs.other.find("backend_config");
  std::string text = found == node.attrs.other.end() ? "" : found->second;
  std::string plain;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '\\' && i + 2 < text.size()) {
      ++i;
      plain += text[i] == 'n' ? '\n' : text[i];
    } else {
      plain += text[i];
    }
  }
  const size_t first = plain.find('|'), second = plain.find('|', first + 1);
  const std::string speakers = plain.substr(0, first);
  if (second == std::string::npos || (speakers != "once" && speakers != "every"))
    user_error(
        "custom-call: {} \"{}\" has backend_config {}; it is \"once|DEVICES|TEXT\" or "
        "\"every|DEVICES|TEXT\"",
        *node.attrs.custom_call_target, node.name(), text.empty() ? "none" : text);
  return {speakers == "once" ? DebugSpeakers::once : DebugSpeakers::every_device,
          plain.substr(first + 1, second - first - 1), plain.substr(second + 1)};
}

std::string debug_text(const std::string& format, std::span<const Array> values) {
  fmt::dynamic_format_arg_store<fmt::format_context> store;
  for (const Array& value : values) store.push_back(Printed{&value});
  try {
    return fmt::vformat(format, store);
  } catch (const fmt::format_error& error) {
    user_error("the text \"{}\" does not fit {} values: {}", format, values.size(), error.what());
  }
}

void run_debug_call(const Node& node, std::span<const Array> operands, int64_t device) {
  const DebugConfig config = debug_config(node);
  const bool checks = node.attrs.custom_call_target == kDebugCheck;
  if (!checks && config.speakers == DebugSpeakers::once) {
    if (device == 0) write_line(debug_text(config.format, operands));
    return;
  }
  const Speaker speaker = speaker_of(config, operands, device);
  if (node.attrs.custom_call_target == kCheckNumbers) return check_numbers(config, speaker);
  if (checks) return check(config, speaker);
  write_line(speaker.name + ": " + debug_text(config.format, speaker.parts));
}

std::function<void(const std::string&)> replace_debug_output(
    std::function<void(const std::string&)> write) {
  const std::lock_guard lock(output().mutex);
  std::swap(output().write, write);
  return write;
}

Shape infer_debug_call(const Node& node) {
  const bool checks = node.attrs.custom_call_target == kDebugCheck;
  check_operand_count(node, node.attrs.custom_call_target == kDebugPrint ? 0 : 1, -1);
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i) {
    const Shape& x = array_operand(node, i);
    if (checks && i == 0 && x.dtype != DType::pred)
      user_error("custom-call: {} \"{}\" of {}; its first operand has to be pred",
                 *node.attrs.custom_call_target, node.name(), to_string(x));
  }
  debug_config(node);  // refuses
  return Shape(DType::pred, {});
}

Value evaluate_debug_call(const EvalContext& context) {
  std::vector<Array> operands;
  for (const Value& value : context.operands) operands.push_back(value.array);
  run_debug_call(context.node, operands, 0);
  return {Array::scalar(true), {}, false};
}

// Once: whole values. Else each device has its part, as it is held.
std::optional<Partitioned> partition_debug_call(PartitionContext& context, Node& node) {
  DebugConfig config = debug_config(node);
  const bool checks = node.attrs.custom_call_target != kDebugPrint;
  std::vector<Shape> shapes;
  std::vector<Sharding> layouts;
  bool apart = checks || config.speakers == DebugSpeakers::every_device;
  for (Node* operand : node.operands()) {
    Sharding held = context.held(operand).sharding;
    apart = apart || held.is_manual() || has_manual_digits(held);
    if (!held.is_manual() && (!held.is_tiled() || !held.unreduced().empty()))
      held = Sharding::replicated();
    if (!held.mesh() && context.sharding(*operand).mesh())
      held = held.with_mesh(context.sharding(*operand).mesh());
    shapes.push_back(operand->shape);
    layouts.push_back(std::move(held));
  }
  std::vector<Node*> operands;
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!apart) layouts[i] = Sharding::replicated();
    Node* operand = node.operands()[i];
    operands.push_back(layouts[i].is_manual() ? context.held(operand).local
                                              : context.reshard(operand, layouts[i]));
  }
  Attributes attrs = node.attrs;
  if (apart) {
    config.speakers = DebugSpeakers::every_device;
    if (config.devices.empty())
      config.devices = names_of_devices(shapes, layouts, context.num_devices());
    attrs.other["backend_config"] = debug_config_text(config);
  }
  return Partitioned{
      context.emit(Opcode::custom_call, node.shape, std::move(operands), std::move(attrs)),
      Sharding::replicated()};
}

// Values of the whole batch, which is in front of those that depend on it.
std::vector<BatchLeaf> batch_debug_call(BatchContext& context, const Node& node) {
  std::vector<Node*> operands;
  for (int64_t i = 0; i < std::ssize(node.operands()); ++i)
    operands.push_back(operand_leaf(context, node, i).node);
  Node* const call =
      emit(context.computation(), node.opcode(), std::move(operands), node.attrs, node.shape);
  call->frontend_attributes = node.frontend_attributes;
  return {{call, false}};
}

}  // namespace gspmd
