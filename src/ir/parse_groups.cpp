#include <algorithm>
#include <charconv>

#include "gspmd/mesh/sharding.h"
#include "ir/parse_attributes.h"

namespace gspmd {
namespace {

struct Mention {
  int64_t device;
  size_t position;
};

// The second mention of a device that stands in two places.
std::optional<Mention> find_repeated(std::vector<Mention> mentions) {
  std::stable_sort(mentions.begin(), mentions.end(),
                   [](const Mention& a, const Mention& b) { return a.device < b.device; });
  for (size_t i = 1; i < mentions.size(); ++i)
    if (mentions[i].device == mentions[i - 1].device) return mentions[i];
  return std::nullopt;
}

void read_numbers(Lexer& lexer, std::string_view closer, std::vector<int64_t>& numbers) {
  do numbers.push_back(lexer.integer("replica_groups"));
  while (lexer.accept(","));
  lexer.expect(closer, "in replica_groups");
}

bool is_permutation(const std::vector<int64_t>& axes) {
  std::vector<bool> seen(axes.size(), false);
  for (const int64_t axis : axes) {
    if (axis < 0 || axis >= static_cast<int64_t>(axes.size()) || seen[static_cast<size_t>(axis)])
      return false;
    seen[static_cast<size_t>(axis)] = true;
  }
  return true;
}

// [2,2]<=[4]T(0)
ReplicaGroups read_iota_groups(Lexer& lexer) {
  const size_t start = lexer.position();
  ReplicaGroups groups;
  lexer.expect("[", "before the sizes of replica_groups");
  groups.num_groups = lexer.integer("the number of groups");
  lexer.expect(",", "between the number and the size of groups");
  groups.group_size = lexer.integer("the group size");
  lexer.expect("]", "after the sizes of replica_groups");
  lexer.expect("<=[", "before the iota of replica_groups");
  read_numbers(lexer, "]", groups.reshape);
  if (lexer.accept("T(")) read_numbers(lexer, ")", groups.transpose);
  if (groups.num_groups < 1 || groups.group_size < 1)
    lexer.fail(start, "replica_groups: sizes must be at least 1");
  int64_t total = 1;
  for (const int64_t d : groups.reshape) {
    if (d < 1) lexer.fail(start, "replica_groups: sizes must be at least 1");
    total = saturating_multiply(total, d);
  }
  if (total > (int64_t{1} << 31))
    lexer.fail(
        start,
        "replica_groups: the iota has {} devices, at most 2^31 are supported; give it as many "
        "as the program has",
        total);
  if (total != saturating_multiply(groups.num_groups, groups.group_size))
    lexer.fail(start, "replica_groups: {} groups of {} are not the {} devices of the iota",
               groups.num_groups, groups.group_size, total);
  if (!groups.transpose.empty() &&
      (groups.transpose.size() != groups.reshape.size() || !is_permutation(groups.transpose)))
    lexer.fail(start, "replica_groups: T({}) is not a permutation of the {} dims of the iota",
               fmt::join(groups.transpose, ","), groups.reshape.size());
  return groups;
}

// mesh['x'=2,'y'=2] {'x'}: devices that differ along the listed axes only. Read as the sharding of
// one dim along those axes, which has the same digits.
ReplicaGroups read_mesh_groups(Lexer& lexer) {
  const size_t start = lexer.position();
  std::string mesh = tidy(lexer.raw_value("replica_groups"));
  if (mesh.back() != '}' && lexer.accept(",")) {
    lexer.expect("device_ids", "between the mesh and the axes of replica_groups");
    lexer.expect("=", "after device_ids");
    mesh += ", device_ids=" + tidy(lexer.raw_value("device_ids"));
  }
  if (mesh.back() != '}') mesh += tidy(lexer.raw_value("the axes of replica_groups"));
  const size_t axes = mesh.rfind('{');
  if (axes == std::string::npos)
    lexer.fail(start, "replica_groups: the axes are missing; write mesh['x'=2,'y'=2] {{'x'}}");
  Sharding sharding;
  try {
    sharding = parse_sharding(fmt::format("{{{}, [{}]}}", std::string_view(mesh).substr(0, axes),
                                          std::string_view(mesh).substr(axes)),
                              1);
  } catch (const UserError& error) {
    lexer.fail(start, "replica_groups: {}", error.what());
  }
  if (sharding.order() != nullptr) return groups_over(sharding.order(), sharding.dim(0));
  if (sharding.mesh() == nullptr) lexer.fail(start, "replica_groups: a mesh of no device");
  const int64_t devices = sharding.mesh()->num_devices();
  ReplicaGroups groups;
  groups.num_groups = devices;
  groups.group_size = 1;
  groups.reshape = {devices};
  return groups;
}

}  // namespace

void read_replica_groups(Lexer& lexer, Attributes& attrs) {
  attrs.replica_groups = {};
  if (lexer.peek() == '[') {
    attrs.replica_groups = read_iota_groups(lexer);
    return;
  }
  if (lexer.sees_word("mesh")) {
    attrs.replica_groups = read_mesh_groups(lexer);
    return;
  }
  std::vector<Mention> all;
  std::vector<std::vector<int64_t>> lists;
  lexer.expect("{", "before replica_groups");
  while (!lexer.accept("}")) {
    if (!lists.empty()) lexer.expect(",", "between replica groups");
    const size_t at = lexer.position();
    lists.push_back(read_dims(lexer, "a replica group"));
    for (const int64_t device : lists.back()) {
      if (device < 0) lexer.fail(at, "replica_groups: device {} is negative", device);
      all.push_back({device, at});
    }
  }
  if (const auto twice = find_repeated(all))
    lexer.fail(twice->position, "replica_groups: device {} stands in two places", twice->device);
  // {{}}, {} and no groups at all are one group of all devices.
  if (all.empty()) lists.clear();
  attrs.replica_groups.edit().lists = std::move(lists);
}

std::string print_replica_groups(const Attributes& attrs) {
  return to_string(attrs.replica_groups);
}

void read_pairs(Lexer& lexer, Attributes& attrs) {
  Pairs::List pairs;
  std::vector<Mention> sources, targets;
  lexer.expect("{", "before source_target_pairs");
  while (!lexer.accept("}")) {
    if (!pairs.empty()) lexer.expect(",", "between source_target_pairs");
    const size_t at = lexer.position();
    const Dims pair = read_dims(lexer, "a source_target pair");
    if (pair.size() != 2 || pair[0] < 0 || pair[1] < 0)
      lexer.fail(at, "source_target_pairs: a pair is {{source,target}}, both not negative");
    sources.push_back({pair[0], at});
    targets.push_back({pair[1], at});
    pairs.emplace_back(pair[0], pair[1]);
  }
  if (const auto twice = find_repeated(std::move(sources)))
    lexer.fail(twice->position, "source_target_pairs: device {} sends twice", twice->device);
  if (const auto twice = find_repeated(std::move(targets)))
    lexer.fail(twice->position, "source_target_pairs: device {} receives twice", twice->device);
  attrs.permutation.edit().pairs = std::move(pairs);
}

namespace {

void put_number(std::string& text, int64_t number) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

std::string pairs_text(const Permutation& permutation) {
  std::string text = "{";
  const Pairs pairs = materialize(permutation);
  for (const auto& [source, target] : pairs) {
    text += text.size() > 1 ? ",{" : "{";
    put_number(text, source);
    text += ',';
    put_number(text, target);
    text += '}';
  }
  return text + "}";
}

}  // namespace

std::string print_pairs(const Attributes& attrs) {
  // The layers of a model send along the same axes again and again: of long lists the last ones are
  // kept.
  constexpr int64_t kLong = 1024;
  constexpr size_t kMostKept = 8;
  static thread_local std::vector<std::pair<Permutation, std::string>> kept;
  const Permutation& permutation = attrs.permutation;
  if (permutation.order == nullptr || permutation.order->count < kLong)
    return pairs_text(permutation);
  const auto found = std::find_if(kept.begin(), kept.end(),
                                  [&](const auto& known) { return known.first == permutation; });
  if (found != kept.end()) {
    std::rotate(kept.begin(), found, found + 1);
  } else {
    if (kept.size() == kMostKept) kept.pop_back();
    kept.insert(kept.begin(), {permutation, pairs_text(permutation)});
  }
  return kept.front().second;
}

}  // namespace gspmd
