#include "mesh/sharding_parse.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "gspmd/base/error.h"
#include "mesh/digit_tools.h"
#include "mesh/sharding_text.h"

namespace gspmd {

Dims parse_counts(TextCursor& text, std::string_view what) {
  text.expect('[', "before the counts");
  Dims dims;
  int64_t product = 1;
  do {
    const size_t column = text.column();
    dims.push_back(text.number(what));
    if (dims.back() < 1) text.fail_at(column, "the {} is 0; it is at least 1", what);
    product = saturating_multiply(product, dims.back());
    if (product > kMaxDevices) text.fail_at(column, "more than 2^31 devices");
  } while (text.accept(','));
  text.expect(']', "after the counts");
  return dims;
}

std::vector<int64_t> parse_devices(TextCursor& text) {
  const size_t start = text.column();
  std::vector<int64_t> devices;
  do {
    devices.push_back(text.number("device id"));
  } while (text.accept(','));
  std::vector<int64_t> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    text.fail_at(start, "device {} is listed twice; every device holds one tile", *twice);
  return devices;
}

std::vector<int64_t> parse_transpose(TextCursor& text, int64_t rank) {
  std::vector<int64_t> transpose;
  if (!text.accept("T(")) {
    transpose.resize(static_cast<size_t>(rank));
    std::iota(transpose.begin(), transpose.end(), 0);
    return transpose;
  }
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  do {
    const size_t column = text.column();
    const int64_t k = text.number("transposed dim");
    if (k >= rank || seen[static_cast<size_t>(k)])
      text.fail_at(column, "{} is not part of a permutation of 0..{}", k, rank - 1);
    seen[static_cast<size_t>(k)] = true;
    transpose.push_back(k);
  } while (text.accept(','));
  if (static_cast<int64_t>(transpose.size()) != rank)
    text.fail("the transpose lists {} of {} dims", transpose.size(), rank);
  text.expect(')', "after the transpose");
  return transpose;
}

namespace {

// One sharding that is no tuple: keywords in any order, separated by blanks or commas.
class SingleParser {
 public:
  SingleParser(TextCursor& text, int64_t rank) : text_(text), rank_(rank), named_(text) {}

  Sharding parse() {
    start_ = text_.column();
    while (!text_.at_end() && text_.peek() != '}') {
      piece();
      text_.accept(',');
    }
    return build().with_shard_group(group_, group_is_as_);
  }

 private:
  void head(std::string_view name, size_t column) {
    if (!head_.empty())
      text_.fail_at(column, "{} after {}; a sharding is one of them", name, head_);
    if (named_.started() && name != "mesh")
      text_.fail_at(column, "{} in a sharding of a named mesh", name);
    head_ = name;
  }

  void piece() {
    text_.skip_space();
    const size_t column = text_.column();
    if (text_.peek() == '[' && named_.started()) return named_.dims();
    const std::string_view word = text_.word();
    if (word == "metadata") {
      text_.expect('=', "after metadata");
      return text_.skip_braces();
    }
    if (word == "shard_as" || word == "shard_like") return shard_group(word, column);
    if (word == "last_tile_dim_replicate" || word == "last_tile_dims")
      return subgroups(word, column);
    if (word == "device_ids" && named_.started()) return named_.device_ids();
    const bool axes = word == "manual" || word == "replicated" || word == "unreduced";
    if (axes && named_.started() && text_.peek() == '=') return named_.axes_of(word);
    if (axes && named_.started()) return everywhere(word, column);
    if (axes || word == "unknown") {
      head(word, column);
      if (word == "unreduced" && text_.accept('=')) combiner();
      return;
    }
    if (word == "maximal") return head(word, column);
    if (word == "maximal_mesh") return maximal_mesh(column);
    if (word == "device") return device(column);
    if (word == "devices") return devices(column);
    if (word == "mesh") {
      head(word, column);
      return named_.mesh();
    }
    unknown_piece(word, column);
  }

  // "mesh['x'=2], manual": of every axis.
  void everywhere(std::string_view word, size_t column) {
    if (word == "replicated") return;
    if (named_.has_dims() || head_ != "mesh")
      text_.fail_at(column, "{} beside dims or {}; name the axes: {}={{'x'}}", word, head_, word);
    head_ = word;
  }

  [[noreturn]] void unknown_piece(std::string_view word, size_t column) {
    constexpr std::string_view kForms =
        "use replicated, maximal device=N, manual, unknown, unreduced, devices=[..] or mesh[..]";
    if (word.empty())
      text_.fail_at(column, "'{}' does not start any part of a sharding; {}", text_.peek(), kForms);
    text_.fail_at(column, "'{}' is no part of a sharding; {}", word, kForms);
  }

  void combiner() {
    const size_t column = text_.column();
    const std::string_view name = text_.word();
    const std::optional<Combiner> named = combiner_from_name(name);
    if (!named)
      text_.fail_at(column, "'{}' is no combiner; use sum, product, max, min, and, or", name);
    combiner_ = *named;
  }

  void shard_group(std::string_view word, size_t column) {
    if (group_ != 0) text_.fail_at(column, "a second shard group; a sharding has one");
    const int64_t id = text_.number("shard group");
    if (id == std::numeric_limits<int64_t>::max())
      text_.fail_at(column, "shard group {} is too large", id);
    group_ = id + 1;
    group_is_as_ = word == "shard_as";
  }

  void subgroups(std::string_view word, size_t column) {
    if (!types_.empty() || head_ != "devices")
      text_.fail_at(column, "{} belongs once after devices=[..]", word);
    types_column_ = column;
    if (word == "last_tile_dim_replicate") {
      types_.push_back('r');
      return;
    }
    text_.expect('=', "after last_tile_dims");
    text_.expect('{', "after last_tile_dims=");
    do {
      const size_t at = text_.column();
      const std::string_view type = text_.word();
      if (type != "manual" && type != "replicated" && type != "unreduced")
        text_.fail_at(at, "'{}' is no subgroup; use manual, replicated or unreduced", type);
      types_ += type[0];
    } while (text_.accept(','));
    text_.expect('}', "after the subgroups");
  }

  void device(size_t column) {
    if (head_.empty()) head_ = "maximal";
    if (head_ != "maximal" || device_ >= 0)
      text_.fail_at(column, "device=N belongs to maximal, once");
    text_.expect('=', "after device");
    device_ = text_.number("device id");
  }

  // maximal_mesh[device_id=3], []: the named form of one device.
  void maximal_mesh(size_t column) {
    head("maximal", column);
    text_.expect('[', "after maximal_mesh");
    if (text_.word() != "device_id") text_.fail("device_id=N is missing");
    text_.expect('=', "after device_id");
    device_ = text_.number("device id");
    text_.expect(']', "after the device");
    text_.accept(',');
    if (text_.accept('[')) text_.expect(']', "of a value on one device");
  }

  void devices(size_t column) {
    head("devices", column);
    text_.expect('=', "after devices");
    text_.skip_space();
    dims_column_ = text_.column();
    dims_ = parse_counts(text_, "tile count");
    if (text_.accept("<=")) {
      text_.skip_space();
      list_column_ = text_.column();
      reshape_ = parse_counts(text_, "iota dim");
      transpose_ = parse_transpose(text_, static_cast<int64_t>(reshape_.size()));
      return;
    }
    text_.skip_space();
    list_column_ = text_.column();
    list_ = parse_devices(text_);
  }

  Sharding build() {
    if (head_ == "mesh") return named();
    if (head_ == "replicated") return Sharding::replicated();
    if (head_ == "manual") return Sharding::manual();
    if (head_ == "unknown") return Sharding::unknown();
    if (head_ == "unreduced") return Sharding::unreduced_everywhere(combiner_);
    if (head_ == "devices") return tiles();
    if (head_ == "maximal") {
      if (device_ < 0) text_.fail("maximal needs its device; write {{maximal device=3}}");
      return Sharding::maximal(device_);
    }
    if (group_ != 0) return Sharding::unknown();
    text_.fail_at(start_, "no sharding stands here; use for example {{replicated}}");
  }

  Sharding named() {
    // `[]` stands for a value of any rank that is not split.
    if (named_.num_dims() > 0) check_rank(named_.num_dims(), start_);
    return named_.build();
  }

  void check_rank(int64_t given, size_t column) {
    if (rank_ >= 0 && given != rank_)
      text_.fail_at(column, "{} dims for a value of rank {}; give one entry per dim", given, rank_);
  }

  Sharding tiles() {
    const int64_t data_rank = static_cast<int64_t>(dims_.size() - types_.size());
    if (types_.size() > dims_.size())
      text_.fail_at(types_column_, "{} subgroups for {} tile dims", types_.size(), dims_.size());
    const int64_t count = product(dims_);
    const char whole = whole_type(data_rank);
    if (whole == 0) check_rank(data_rank, dims_column_);
    const int64_t listed =
        reshape_.empty() ? static_cast<int64_t>(list_.size()) : product(reshape_);
    if (count != listed)
      text_.fail_at(list_column_, "{} devices for {} tiles; the counts must be equal", listed,
                    count);
    if (whole != 0) return whole == 'm' ? Sharding::manual() : Sharding::replicated();
    if (reshape_.empty()) return ShardingText::from_list(dims_, data_rank, types_, list_);
    if (std::optional<Sharding> sharding =
            ShardingText::from_iota(dims_, data_rank, types_, reshape_, transpose_))
      return *sharding;
    return written_out(data_rank);
  }

  // Several devices in one subgroup of copies ('r') or of manual code ('m') that splits no dim:
  // `{replicated}` and `{manual}`, which fit values of any rank, as HloSharding::Subgroup has it.
  // 0 otherwise.
  char whole_type(int64_t data_rank) const {
    char whole = 0;
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (dims_[i] == 1) continue;
      if (static_cast<int64_t>(i) < data_rank) return 0;
      const char type = types_[i - static_cast<size_t>(data_rank)];
      if (type == 'u' || (whole != 0 && whole != type)) return 0;
      whole = type;
    }
    return whole;
  }

  // Tile dims that cut an iota between its digits: only the list says it.
  Sharding written_out(int64_t data_rank) {
    constexpr int64_t kLongestList = int64_t{1} << 20;
    if (product(dims_) > kLongestList)
      text_.fail_at(list_column_,
                    "{} devices in an order that has to be listed, which is done for "
                    "at most {}; let the tile counts divide the iota dims",
                    product(dims_), kLongestList);
    const Dims strides = row_major_strides(reshape_);
    Digits sequence;
    for (const int64_t k : transpose_)
      sequence.push_back({reshape_[static_cast<size_t>(k)], strides[static_cast<size_t>(k)]});
    return ShardingText::from_list(dims_, data_rank, types_, ranks_in_order(sequence));
  }

  static int64_t product(const Dims& dims) {
    return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  }

  TextCursor& text_;
  int64_t rank_;
  NamedShardingParser named_;
  size_t start_ = 0;
  std::string head_;
  Combiner combiner_ = Combiner::sum;
  int64_t device_ = -1;
  Dims dims_;
  std::vector<int64_t> list_;
  Dims reshape_;
  std::vector<int64_t> transpose_;
  std::string types_;
  size_t dims_column_ = 0;
  size_t list_column_ = 0;
  size_t types_column_ = 0;
  int64_t group_ = 0;
  bool group_is_as_ = false;
};

Sharding parse_braced(TextCursor& text, int64_t rank, int depth) {
  constexpr int kDeepest = 64;
  if (depth > kDeepest) text.fail("tuples nested deeper than {}", kDeepest);
  text.expect('{', "before a sharding");
  if (text.accept('}')) return Sharding::tuple({});
  if (text.peek() != '{') {
    Sharding single = SingleParser(text, rank).parse();
    text.expect('}', "after a sharding");
    return single;
  }
  std::vector<Sharding> elements;
  do {
    elements.push_back(parse_braced(text, -1, depth + 1));
  } while (text.accept(','));
  text.expect('}', "after the elements of a tuple");
  return Sharding::tuple(std::move(elements));
}

}  // namespace

Sharding parse_sharding(std::string_view text, int64_t rank) {
  TextCursor cursor(text);
  if (cursor.accept("sharding")) cursor.expect('=', "after sharding");
  Sharding sharding =
      cursor.peek() == '{' ? parse_braced(cursor, rank, 0) : SingleParser(cursor, rank).parse();
  if (!cursor.at_end()) cursor.fail("'{}' after the end of the sharding", cursor.peek());
  return sharding;
}

}  // namespace gspmd
