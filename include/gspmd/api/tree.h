#pragma once

// Trees of values: structs, vectors and tuples of arrays or tensors, leaf by leaf.

#include <array>
#include <concepts>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "gspmd/api/fields.h"
#include "gspmd/base/export.h"

namespace gspmd {

template <class T>
concept HasFields = requires(T& tree) {
  tree.gspmd_fields();
  T::gspmd_field_names();
};

namespace detail {

// T, of which a compiler knows nothing before the template that names it is used with `Args`: what
// the template does with it is compiled only then.
template <class T, class... Args>
struct Late {
  using type = T;
};
template <class T, class... Args>
using late_t = typename Late<T, Args...>::type;

// What kind of node a type is in a tree of values; everything unknown is a leaf.
template <class T>
struct TreeNode;

// One name of "norm, wq, wk" by position.
constexpr std::string_view field_name(std::string_view names, size_t position) {
  size_t begin = 0;
  for (; position > 0; --position) begin = names.find(',', begin) + 1;
  while (begin < names.size() && names[begin] == ' ') ++begin;
  return names.substr(begin, names.find(',', begin) - begin);
}

GSPMD_API std::string join_path(const std::string& path, std::string_view name);

// The errors of map_leaves.
[[noreturn]] GSPMD_API void trees_differ(const std::string& path);
[[noreturn]] GSPMD_API void first_tree_ends(const std::string& path);

}  // namespace detail

// The same tree with leaves of another type: rebind_t<Adam<Model<Tensor>>, Array> is
// Adam<Model<Array>>.
template <class Tree, class Leaf>
using rebind_t = typename detail::TreeNode<std::remove_cvref_t<Tree>>::template rebind<Leaf>;

// The type of the leaves: Tensor for Adam<Model<Tensor>>.
template <class Tree>
using leaf_t = typename detail::TreeNode<std::remove_cvref_t<Tree>>::leaf;

// Calls f(path, leaf&) on every leaf in order of declaration; paths read "blocks.0.wq".
template <class Tree, class F>
void for_each_leaf(Tree& tree, F&& f, const std::string& path = {}) {
  detail::TreeNode<std::remove_const_t<Tree>>::visit(tree, path, f);
}

// A tree of the same structure whose leaves are f(path, leaf).
template <class Tree, class F>
auto map_tree(const Tree& tree, F&& f, const std::string& path = {}) {
  using Leaf = std::decay_t<std::invoke_result_t<F&, const std::string&, const leaf_t<Tree>&>>;
  rebind_t<Tree, Leaf> out{};
  detail::TreeNode<Tree>::map(tree, out, path, f);
  return out;
}

// The leaves with their paths, in order of declaration.
template <class Tree>
std::vector<std::pair<std::string, leaf_t<Tree>>> flatten(const Tree& tree,
                                                          const std::string& path = {}) {
  std::vector<std::pair<std::string, leaf_t<Tree>>> leaves;
  for_each_leaf(
      tree, [&](const std::string& at, const leaf_t<Tree>& leaf) { leaves.emplace_back(at, leaf); },
      path);
  return leaves;
}

// Number of leaves.
template <class Tree>
int64_t leaf_count_of(const Tree& tree) {
  int64_t count = 0;
  for_each_leaf(tree, [&](const std::string&, const auto&) { ++count; });
  return count;
}

// As map_tree over several trees of one structure: leaves are f(leaf, leaf of each other tree).
// UserError where the trees differ.
template <class F, class Tree, class... Rest>
auto map_leaves(F&& f, const Tree& tree, const Rest&... rest) {
  const auto others = std::make_tuple(flatten(rest)...);
  size_t position = 0;
  auto result = map_tree(tree, [&](const std::string& path, const leaf_t<Tree>& leaf) {
    const size_t i = position++;
    return std::apply(
        [&](const auto&... lists) {
          const bool same = ((i < lists.size() && lists[i].first == path) && ...);
          if (!same) detail::trees_differ(path);
          return f(leaf, lists[i].second...);
        },
        others);
  });
  const auto check_end = [&](const auto& list) {
    if (list.size() > position) detail::first_tree_ends(list[position].first);
  };
  std::apply([&](const auto&... lists) { (check_end(lists), ...); }, others);
  return result;
}

namespace detail {

// A number or text among the fields of a struct, where what is done is for arrays and tensors.
template <class T, class F, class... Args>
constexpr bool check_leaf() {
  constexpr bool takes =
      !(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>) ||
      std::is_invocable_v<F, Args...>;
  static_assert(takes,
                "GSPMD_FIELDS lists a number, an enum or a text: list the members that hold arrays "
                "or tensors only; others keep their default values");
  return takes;
}

template <class T>
struct TreeNode {  // a leaf
  template <class Leaf>
  using rebind = Leaf;
  using leaf = T;
  template <class Tree, class F>
  static void visit(Tree& tree, const std::string& path, F& f) {
    if constexpr (check_leaf<T, F&, const std::string&, Tree&>()) f(path, tree);
  }
  template <class Out, class F>
  static void map(const T& tree, Out& out, const std::string& path, F& f) {
    if constexpr (check_leaf<T, F&, const std::string&, const T&>()) out = f(path, tree);
  }
};

// --- Whether GSPMD_FIELDS lists all members that are trees of the struct's leaves. Members have no
// list in C++; they are counted by what aggregate initialization takes at each place

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;  // has a constructor from all that T has

// Stands for a member of any type. Never called; defined since an optional's constructor, looked at
// to see what a struct takes, counts as a use.
template <class S>
struct AnyMember {
  template <class U>
  requires(!is_optional<U> && !std::same_as<U, S>) operator U() const { std::abort(); }
};
// Stands for a member that is a tree of leaves of a type.
template <class S, class Leaf>
struct AnyTree {
  template <class U>
  requires(!is_optional<U> && !std::same_as<U, S> && std::same_as<leaf_t<U>, Leaf>) operator U()
      const {
    std::abort();
  }
};
template <class S, size_t>
using MemberAt = AnyMember<S>;

// Whether there is a member behind the first sizeof...(I) that `Last` can stand for.
template <class S, class Last, size_t... I>
constexpr bool has_member(std::index_sequence<I...>) {
  return requires { S{MemberAt<S, I>{}..., Last{}}; };
}
template <class S, class Leaf, size_t I = 0>
constexpr size_t count_trees() {
  constexpr auto before = std::make_index_sequence<I>();
  if constexpr (has_member<S, AnyMember<S>>(before))
    return size_t{has_member<S, AnyTree<S, Leaf>>(before)} + count_trees<S, Leaf, I + 1>();
  else
    return 0;
}

// S lists in GSPMD_FIELDS all members that are trees of `Leaf`.
template <class S, class Leaf>
constexpr bool lists_all_fields() {
  if constexpr (!std::is_aggregate_v<S> || requires { S::gspmd_lists_some(); }) {
    return true;
  } else {
    constexpr auto listed = []<class... Field>(const std::tuple<Field...>*) {
      return (size_t{std::same_as<leaf_t<Field>, Leaf>} + ... + 0);
    };
    using Fields = decltype(std::declval<S&>().gspmd_fields());
    return count_trees<S, Leaf>() <= listed(static_cast<const Fields*>(nullptr));
  }
}
template <class S, class Leaf>
constexpr void check_fields() {
  constexpr bool all = lists_all_fields<S, Leaf>();
  static_assert(all,
                "GSPMD_FIELDS leaves out a member that holds arrays or tensors: list it, or write "
                "GSPMD_SOME_FIELDS where that is meant");
}

template <template <class> class S, class T>
requires HasFields<S<T>>
struct TreeNode<S<T>> {
  template <class Leaf>
  using rebind = S<rebind_t<T, Leaf>>;
  using leaf = leaf_t<T>;
  template <class Tree, class F>
  static void visit(Tree& tree, const std::string& path, F& f) {
    check_fields<S<T>, leaf>();
    each(tree.gspmd_fields(), [&](auto& field, size_t i) {
      for_each_leaf(field, f, join_path(path, field_name(S<T>::gspmd_field_names(), i)));
    });
  }
  template <class Out, class F>
  static void map(const S<T>& tree, Out& out, const std::string& path, F& f) {
    check_fields<S<T>, leaf>();
    map_fields(tree.gspmd_fields(), out.gspmd_fields(), path, f,
               std::make_index_sequence<std::tuple_size_v<decltype(tree.gspmd_fields())>>());
  }

 private:
  template <class Fields, class G>
  static void each(Fields fields, G g) {
    std::apply(
        [&](auto&... field) {
          size_t i = 0;
          (g(field, i++), ...);
        },
        fields);
  }
  template <class From, class To, class F, size_t... I>
  static void map_fields(From from, To to, const std::string& path, F& f,
                         std::index_sequence<I...>) {
    (TreeNode<std::remove_cvref_t<std::tuple_element_t<I, From>>>::map(
         std::get<I>(from), std::get<I>(to),
         join_path(path, field_name(S<T>::gspmd_field_names(), I)), f),
     ...);
  }
};

template <class T>
struct TreeNode<std::vector<T>> {
  template <class Leaf>
  using rebind = std::vector<rebind_t<T, Leaf>>;
  using leaf = leaf_t<T>;
  template <class Tree, class F>
  static void visit(Tree& tree, const std::string& path, F& f) {
    for (size_t i = 0; i < tree.size(); ++i)
      for_each_leaf(tree[i], f, join_path(path, std::to_string(i)));
  }
  template <class Out, class F>
  static void map(const std::vector<T>& tree, Out& out, const std::string& path, F& f) {
    out.resize(tree.size());
    for (size_t i = 0; i < tree.size(); ++i)
      TreeNode<T>::map(tree[i], out[i], join_path(path, std::to_string(i)), f);
  }
};

// Leaves by path, as flatten() gives them: a tree that is known at run time only.
template <class T>
struct TreeNode<std::vector<std::pair<std::string, T>>> {
  template <class Leaf>
  using rebind = std::vector<std::pair<std::string, rebind_t<T, Leaf>>>;
  using leaf = leaf_t<T>;
  template <class Tree, class F>
  static void visit(Tree& tree, const std::string& path, F& f) {
    for (auto& [name, part] : tree) for_each_leaf(part, f, join_path(path, name));
  }
  template <class Out, class F>
  static void map(const std::vector<std::pair<std::string, T>>& tree, Out& out,
                  const std::string& path, F& f) {
    out.resize(tree.size());
    for (size_t i = 0; i < tree.size(); ++i) {
      out[i].first = tree[i].first;
      TreeNode<T>::map(tree[i].second, out[i].second, join_path(path, tree[i].first), f);
    }
  }
};

template <class T, size_t N>
struct TreeNode<std::array<T, N>> {
  template <class Leaf>
  using rebind = std::array<rebind_t<T, Leaf>, N>;
  using leaf = leaf_t<T>;
  template <class Tree, class F>
  static void visit(Tree& tree, const std::string& path, F& f) {
    for (size_t i = 0; i < N; ++i) for_each_leaf(tree[i], f, join_path(path, std::to_string(i)));
  }
  template <class Out, class F>
  static void map(const std::array<T, N>& tree, Out& out, const std::string& path, F& f) {
    for (size_t i = 0; i < N; ++i)
      TreeNode<T>::map(tree[i], out[i], join_path(path, std::to_string(i)), f);
  }
};

template <class T>
struct TreeNode<std::optional<T>> {
  template <class Leaf>
  using rebind = std::optional<rebind_t<T, Leaf>>;
  using leaf = leaf_t<T>;
  template <class Tree, class F>
  static void visit(Tree& tree, const std::string& path, F& f) {
    if (tree) for_each_leaf(*tree, f, path);
  }
  template <class Out, class F>
  static void map(const std::optional<T>& tree, Out& out, const std::string& path, F& f) {
    out.reset();
    if (tree) TreeNode<T>::map(*tree, out.emplace(), path, f);
  }
};

// std::pair and std::tuple.
template <class Self, template <class...> class Tuple, class... Ts>
struct TupleNode {
  template <class Leaf>
  using rebind = Tuple<rebind_t<Ts, Leaf>...>;
  using leaf = leaf_t<std::tuple_element_t<0, Self>>;
  template <class Tree, class F>
  static void visit(Tree& tree, const std::string& path, F& f) {
    std::apply(
        [&](auto&... element) {
          size_t i = 0;
          (for_each_leaf(element, f, join_path(path, std::to_string(i++))), ...);
        },
        tree);
  }
  template <class Out, class F>
  static void map(const Self& tree, Out& out, const std::string& path, F& f) {
    map_elements(tree, out, path, f, std::index_sequence_for<Ts...>());
  }

 private:
  template <class Out, class F, size_t... I>
  static void map_elements(const Self& tree, Out& out, const std::string& path, F& f,
                           std::index_sequence<I...>) {
    (TreeNode<std::tuple_element_t<I, Self>>::map(std::get<I>(tree), std::get<I>(out),
                                                  join_path(path, std::to_string(I)), f),
     ...);
  }
};
template <class A, class B>
struct TreeNode<std::pair<A, B>> : TupleNode<std::pair<A, B>, std::pair, A, B> {};
template <class... Ts>
struct TreeNode<std::tuple<Ts...>> : TupleNode<std::tuple<Ts...>, std::tuple, Ts...> {};

}  // namespace detail
}  // namespace gspmd
