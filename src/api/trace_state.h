#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "gspmd/api/operand.h"
#include "gspmd/api/tensor.h"
#include "gspmd/mesh/mesh.h"
#include "gspmd/mesh/sharding.h"
#include "gspmd/ops/builders.h"

namespace gspmd::detail {

// The body of a loop or a branch while it is traced. What it reads of the computations around it
// becomes a parameter behind its own.
struct Body {
  const char* op = "";  // the function that was given it
  Site site;
  Computation* computation = nullptr;
  std::vector<Node*> outer;                   // what it reads, of the computation around it
  std::unordered_map<Node*, Node*> captured;  // outer -> inside
};

// The function given to shard_map, while it is traced.
struct ManualRegion {
  Mesh mesh;
  std::vector<std::string> axes;  // the manual ones, in the mesh's order
  Digits digits;                  // of those, without axes of one device
  bool is_manual(const std::string& axis) const;
  // The layout of a value inside of which these dims are split over automatic axes.
  Sharding inside(std::vector<Digits> dims) const;
};

// What the tensors of one trace share. Outlives the trace, so that a tensor used too late can say
// so.
struct TraceState {
  std::string name;
  Module* module = nullptr;  // nullptr when the trace has ended
  Computation* entry = nullptr;
  std::vector<Body*> bodies;  // open ones, the innermost last
  // Where operations are emitted.
  Computation& here() const { return bodies.empty() ? *entry : *bodies.back()->computation; }
  const ManualRegion* region = nullptr;  // of the function given to shard_map that is traced
  std::vector<Array> captured;
  std::vector<Node*> captured_nodes;
  int64_t num_devices = 0;  // of the meshes in annotations; 0: none yet
  std::string mesh_text;    // the first of them
  std::shared_ptr<TraceState> outer;
  bool active() const { return module != nullptr; }
};

struct TensorAccess {
  static Tensor make(Node* node, std::shared_ptr<const TraceState> trace) {
    Tensor tensor;
    tensor.node_ = node;
    tensor.trace_ = std::move(trace);
    return tensor;
  }
  static Node* node(const Tensor& tensor) { return tensor.node_; }
  static const std::shared_ptr<const TraceState>& trace(const Tensor& tensor) {
    return tensor.trace_;
  }
};

// A site of CompileOptions or TraceOptions; none where the struct was declared without braces: that
// gives the line of the struct in its header, which is nobody's.
Site users_line(Site site);

// The innermost trace that runs on this thread; nullptr outside.
std::shared_ptr<TraceState>& current_trace();

// The public function that the user called: the outermost one that is running. Emitted nodes carry
// its name and line, and so do errors; a softmax calls max and sum, but the user wrote softmax.
class CallScope {
 public:
  CallScope(const char* op, Site site);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  ~CallScope();

 private:
  bool outermost_;
  std::optional<EmissionScope> emission_;
};
const char* called_op();
Site called_site();
std::string& name_scope();  // "layers.0/", empty outside

// UserError "op: ..." with the op and line of the call in progress.
template <class... Args>
[[noreturn]] void call_error(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(
      fmt::format("{}: {}", called_op(), fmt::format(format, std::forward<Args>(args)...)),
      called_site());
}

// Runs the body of a public function: opens its scope, and gives errors of lower modules the user's
// line.
template <class F>
auto call(const char* op, Site site, F&& body) {
  const CallScope scope(op, site);
  try {
    return body();
  } catch (const UserError& error) {
    if (error.site().known() || !called_site().known()) throw;
    throw UserError(error.what(), called_site());
  }
}

// The trace that a call works in: that of its tensors, which must be the running one. UserError for
// a call outside any trace, a tensor without a value, of an ended trace, or of another trace.
TraceState& trace_of_call();
void check_tensor(const Tensor& tensor);

// The node of an operand in the running trace. Numbers take `dtype` (UserError when it cannot hold
// them) and have no dims; arrays become hidden parameters.
Node* node_of(const Operand& operand, std::optional<DType> dtype = std::nullopt);
Node* node_of(const Tensor& tensor);
// A value of this or a computation around it, as it is known where operations are emitted.
// UserError: it is of a body that has ended.
Node* node_here(TraceState& trace, Node* node);
// Both operands of a binary function, dtypes equal; at least one is not a number.
std::pair<Node*, Node*> nodes_of(const Operand& a, const Operand& b);
Node* scalar_node(double value, bool integral, DType dtype);
Tensor tensor_of(Node* node);

// A name that HLO text takes: letters, digits, '.', '_' and '-', all others as '_'.
std::string identifier(std::string name);

// "dot.3 f32[8,16]", for messages.
std::string describe(const Node* node);

}  // namespace gspmd::detail
