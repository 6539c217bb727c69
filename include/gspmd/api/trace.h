#pragma once

// From a C++ function on tensors to an HLO program with global shapes.

#include <fmt/core.h>

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gspmd/api/function_checks.h"
#include "gspmd/api/operand.h"
#include "gspmd/api/tree.h"
#include "gspmd/base/export.h"
#include "gspmd/base/owned.h"
#include "gspmd/base/rare.h"
#include "gspmd/ir/module_fwd.h"

namespace gspmd {

namespace detail {

// An address of its own for each type: users may compile without run-time type information.
using TypeAddress = const void*;
template <class T>
inline char type_address_storage = 0;
template <class T>
TypeAddress type_address() {
  return &type_address_storage<T>;
}

}  // namespace detail

// One leaf of an argument or result of a traced function.
struct TracedLeaf {
  std::string path;     // "params.blocks.0.wq"; arguments without a name are "arg0", "arg1", ...
  Shape shape;          // of the whole array
  int64_t element = 0;  // which argument, or which element of a tuple of results
  std::string inner;    // path inside that argument or element: "blocks.0.wq"
};

// A traced program: HLO with global shapes; entry parameters are the argument leaves in order, then
// the captured arrays; the root is a tuple of the result leaves.
class GSPMD_API Traced {
 public:
  // --- Copies share the program
  Traced();
  Traced(const Traced& other) noexcept;
  Traced(Traced&& other) noexcept;
  Traced& operator=(const Traced& other) noexcept;
  Traced& operator=(Traced&& other) noexcept;
  ~Traced();

  const Module& module() const;  // the program, before completion
  std::string text() const;      // canonical HLO text
  // Leaves, in order of the entry's parameters.
  const std::vector<TracedLeaf>& arguments() const;
  // Leaves, in order of the root's elements.
  const std::vector<TracedLeaf>& results() const;
  const std::vector<Array>& captured() const;  // values of the hidden parameters
  // Types of the arguments and result elements with Array leaves, which donation matches.
  const std::vector<detail::TypeAddress>& argument_types() const;
  // As argument_types.
  const std::vector<detail::TypeAddress>& result_types() const;

 private:
  friend class TraceSession;
  struct Parts;
  Rare<Parts> parts_;
};

// How a trace is named.
struct GSPMD_API TraceOptions {
  std::string name = "traced";                   // of the module
  std::vector<std::string> argument_names = {};  // used in paths and messages
  Site site = Site::here();                      // the user's line, for messages
};

// One trace from beginning to end; used by trace() and compile(). While it lives, operations on its
// tensors append to its module; when it ends, its tensors are no longer usable.
class GSPMD_API TraceSession {
 public:
  // Begins a trace on this thread; traces nest.
  explicit TraceSession(const TraceOptions& options);
  TraceSession(const TraceSession&) = delete;
  TraceSession& operator=(const TraceSession&) = delete;
  ~TraceSession();

  // The parameters that follow are leaves of the next argument.
  void begin_argument(detail::TypeAddress type);
  // The next argument leaf, of this shape.
  Tensor parameter(const std::string& inner_path, const Shape& shape);
  Tensor parameter(const std::string& inner_path, const Array& array);  // UserError: it is empty
  // The results that follow are leaves of the next element of the result.
  void begin_result(detail::TypeAddress type);
  // The next result leaf. UserError: the tensor has no value.
  void result(const std::string& inner_path, const Tensor& tensor);
  Traced finish();  // ends the trace: its program

 private:
  struct Impl;
  Owned<Impl> impl_;
};

namespace detail {

template <class Tree>
constexpr bool is_argument_tree =
    std::same_as<leaf_t<Tree>, Array> || std::same_as<leaf_t<Tree>, Shape>;

template <class Arg>
rebind_t<Arg, Tensor> declare_argument(TraceSession& session, const Arg& arg) {
  session.begin_argument(type_address<rebind_t<Arg, Array>>());
  return map_tree(
      arg, [&]<class Leaf>(const std::string& path, const Leaf& leaf) requires(
               std::same_as<Leaf, Array> || std::same_as<Leaf, Shape>) {
        return session.parameter(path, leaf);
      });
}

template <class Element>
void declare_element(TraceSession& session, const Element& element) {
  static_assert(std::same_as<leaf_t<Element>, Tensor>,
                "a traced function returns tensors or trees of them");
  session.begin_result(type_address<rebind_t<Element, Array>>());
  for_each_leaf(element,
                [&](const std::string& path, const Tensor& leaf) { session.result(path, leaf); });
}

template <class Result>
void declare_results(TraceSession& session, const Result& result) {
  declare_element(session, result);
}
template <class... Ts>
void declare_results(TraceSession& session, const std::tuple<Ts...>& result) {
  std::apply([&](const auto&... element) { (declare_element(session, element), ...); }, result);
}
template <class A, class B>
void declare_results(TraceSession& session, const std::pair<A, B>& result) {
  declare_element(session, result.first);
  declare_element(session, result.second);
}

// What a function and its arguments have to be for a trace; the compiler says what they are not.
template <class Fn, class... Args>
constexpr bool check_traced() {
  constexpr bool trees = (is_argument_tree<Args> && ...);
  static_assert(trees,
                "arguments are arrays, shapes or trees of them: list the members of a struct in "
                "GSPMD_FIELDS, and capture other values, as numbers, by a lambda");
  if constexpr (trees) {
    constexpr bool takes = std::is_invocable_v<Fn&, rebind_t<Args, Tensor>...>;
    static_assert(
        takes,
        "the function has to take the arguments' trees with Tensor in the place of Array: "
        "as many, by value or const reference");
    if constexpr (takes) return check_trees<result_of<Fn&, rebind_t<Args, Tensor>...>>();
    return false;
  } else {
    return false;
  }
}

template <class Fn, class... Args>
using traced_result_t = std::decay_t<std::invoke_result_t<Fn&, rebind_t<Args, Tensor>...>>;

// Runs the function on parameters and returns the program; `prototype` receives the result's
// structure.
template <class Fn, class... Args>
Traced trace_function(const TraceOptions& options, Fn& fn,
                      rebind_t<traced_result_t<Fn, Args...>, Array>* prototype,
                      const Args&... args) {
  TraceSession session(options);
  // Braces evaluate from left to right, so parameters are numbered in order.
  std::tuple<rebind_t<Args, Tensor>...> tensors{declare_argument(session, args)...};
  const auto result =
      std::apply([&](auto&... tensor) { return std::invoke(fn, std::move(tensor)...); }, tensors);
  declare_results(session, result);
  if (prototype)
    *prototype = map_tree(result, [](const std::string&, const Tensor&) { return Array(); });
  return session.finish();
}

}  // namespace detail

// Runs `fn` on tensors of the arguments' shapes and returns what it did. Arguments are trees of
// Array or Shape; fn takes the same trees of Tensor.
template <class Fn, class... Args>
Traced trace(Fn fn, const Args&... args) {
  if constexpr (detail::check_traced<Fn, Args...>())
    return detail::trace_function(TraceOptions{.site = {}}, fn, nullptr, args...);
}
// The same with a name, argument names and a line.
template <class Fn, class... Args>
Traced trace(const TraceOptions& options, Fn fn, const Args&... args) {
  if constexpr (detail::check_traced<Fn, Args...>())
    return detail::trace_function(options, fn, nullptr, args...);
}

}  // namespace gspmd

template <>
struct fmt::formatter<gspmd::Traced> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const gspmd::Traced& value, Context& context) const {
    return fmt::format_to(context.out(), "{}", value.text());
  }
};
