#include <fmt/format.h>

#include <algorithm>

#include "gspmd/base/error.h"
#include "gspmd/mesh/visualize.h"
#include "gspmd/passes/complete/propagate.h"
#include "io/atomic_file.h"
#include "tools/command.h"
#include "tools/report.h"
#include "tools/streams.h"

namespace gspmd::tools {
namespace {

// A picture to draw.
struct Drawn {
  const Computation* computation;
  const Node* node;
};

bool is_wanted(const Command& command, const Computation& entry, const Computation& computation,
               const Node& node) {
  if (command.all_tensors) return node.sharding.has_value();
  const std::vector<std::string>& names = command.tensors;
  if (!names.empty()) return std::find(names.begin(), names.end(), node.name()) != names.end();
  return &computation == &entry && (node.is(Opcode::parameter) || node.is_root());
}

std::vector<Drawn> wanted(const Module& module, const Command& command) {
  std::vector<Drawn> drawn;
  for (const auto& computation : module.computations())
    for (const auto& node : computation->nodes())
      if (is_wanted(command, *module.entry(), *computation, *node))
        drawn.push_back({computation.get(), node.get()});
  for (const std::string& name : command.tensors)
    if (std::none_of(drawn.begin(), drawn.end(),
                     [&](const Drawn& d) { return d.node->name() == name; }))
      user_error(
          "{}: --tensor {}: there is no instruction of that name; gspmd propagate lists them",
          command.file, name);
  return drawn;
}

Sharding sharding_of(const Node& node) { return node.sharding.value_or(Sharding::replicated()); }

}  // namespace

int visualize_verb(const Command& command) {
  const std::unique_ptr<Module> module = load_module(command, load_text(command));
  if (command.propagate) propagate(*module, propagate_options(command, *module));
  std::vector<ShardedTensor> tensors;
  Json list = Json::array();
  std::string text;
  for (const auto& [computation, node] : wanted(*module, command)) {
    const Sharding sharding = sharding_of(*node);
    const std::string name = computation == module->entry()
                                 ? node->name()
                                 : fmt::format("{} of {}", node->name(), computation->name());
    const std::string picture = visualize(node->shape, sharding);
    text += fmt::format("%{}\n{}\n", name, picture);
    list.push_back({{"computation", computation->name()},
                    {"name", node->name()},
                    {"shape", to_string(node->shape)},
                    {"sharding", to_string(sharding)},
                    {"text", picture}});
    tensors.push_back({name, node->shape, sharding});
  }
  if (!command.html.empty()) {
    const std::string page = visualize_html(command.file, tensors);
    io::AtomicFile file(command.html);
    file.write(0, std::as_bytes(std::span(page)));
    file.commit();
  }
  if (command.json)
    print_json({{"tensors", list}});
  else if (command.html.empty())
    write_output(text);
  return 0;
}

}  // namespace gspmd::tools
