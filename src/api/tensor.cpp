#include "gspmd/api/tensor.h"

#include "api/trace_state.h"

namespace gspmd {

using namespace detail;

std::string detail::identifier(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  return name.empty() ? "_" : name;
}

const Shape& Tensor::shape(Site site) const {
  const CallScope scope("shape", site);
  check_tensor(*this);
  return node_->shape;
}

int64_t Tensor::dim(int64_t i, Site site) const {
  const CallScope scope("dim", site);
  const Dims& dims = shape(site).dims;
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (i < -rank || i >= rank)
    call_error("dim {} of {}, which has rank {}; give {} to {}", i, describe(node_), rank, -rank,
               rank - 1);
  return dims[static_cast<size_t>(i < 0 ? i + rank : i)];
}

NameScope::NameScope(const std::string& name) : saved_length_(name_scope().size()) {
  name_scope() += name + "/";
}

NameScope::~NameScope() { name_scope().resize(saved_length_); }

Tensor named(Tensor x, const std::string& name, Site site) {
  return call("named", site, [&] {
    Node* node = node_of(x);
    if (name.empty()) call_error("the name of {} is empty; give letters", describe(node));
    if (!node->is(Opcode::parameter)) node->parent().rename(node, identifier(name_scope() + name));
    node->metadata.op_name = name_scope() + name;
    return x;
  });
}

}  // namespace gspmd
