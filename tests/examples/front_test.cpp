#include "examples/front.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "examples/corpus.h"
#include "examples/prefetch.h"
#include "examples/report.h"
#include "examples/text_task.h"

namespace gspmd::examples {
namespace {

using Catch::Matchers::Contains;

// Batches without a model.
class AnyText : public TextTask {
 public:
  using TextTask::TextTask;
  std::shared_ptr<const models::Model> model(const Mesh&) const override { return nullptr; }
};

}  // namespace

TEST_CASE("option --mesh: names and sizes, sizes alone, and one device", "[examples]") {
  CHECK(parse_mesh("data=2,model=4") == Mesh{{"data", 2}, {"model", 4}});
  CHECK(parse_mesh("2,3") == Mesh{{"x0", 2}, {"x1", 3}});
  CHECK(parse_mesh("1") == Mesh());
}

TEST_CASE("option --mesh: what is no mesh is an error with the part concerned", "[examples]") {
  for (const char* text :
       {"", "data=", "data=x", "=3", "data=2,,model=2", "data=2 ", "a=99999999999999999999"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_mesh(text), Contains("--mesh"));
  }
  CHECK_THROWS_AS(parse_mesh("a=0"), UserError);
  CHECK_THROWS_AS(parse_mesh("a=2,a=2"), UserError);
}

TEST_CASE("front: the last of an option given twice counts", "[examples]") {
  Front front("example", "An example.", {}, {"data"});
  int64_t width = 3;
  front.add_size("width", width, "of it");
  const char* arguments[] = {"example", "--steps", "1", "--width", "5", "--steps", "3", "--json"};
  int exit_code = 0;
  REQUIRE(front.parse(8, arguments, exit_code));
  CHECK(front.options().steps == 3);
  CHECK(front.options().json);
  CHECK(width == 5);
}

TEST_CASE("front: what a resumed run must share are the example's options and what batches follow",
          "[examples]") {
  RunOptions defaults;
  defaults.batch = 4;
  Front front("example", "An example.", defaults, {"data", "model"});
  int64_t width = 3, sample = 7;
  std::string norm = "rms";
  bool bias = false;
  front.add_size("width", width, "of it");
  front.add_word("norm", norm, {"rms", "layer"}, "");
  front.add_flag("bias", bias, "");
  front.add_count("sample", sample, "");
  const char* arguments[] = {"example",   "--norm",   "layer",   "--bias", "--seed",
                             "12",        "--recipe", "model",   "--mesh", "2,4",
                             "--threads", "3",        "--batch", "8"};
  int exit_code = 0;
  REQUIRE(front.parse(14, arguments, exit_code));
  const auto identity = front.identity();
  const auto at = [&](const char* name) { return identity.at(name); };
  CHECK(at("width") == "3");
  CHECK(at("norm") == "layer");
  CHECK(at("bias") == "true");
  CHECK(at("seed") == "12");
  CHECK(at("batch") == "8");
  for (const char* free : {"mesh", "recipe", "threads", "sample", "trace", "checkpoint"})
    CHECK(identity.count(free) == 0);
}

TEST_CASE("front: wrong words and numbers are exit code 2", "[examples]") {
  for (const std::vector<const char*>& wrong :
       {std::vector<const char*>{"example", "--recipe", "4d"},
        {"example", "--optimizer", "adamm"},
        {"example", "--lr", "nan"},
        {"example", "--steps", "0"},
        {"example", "--norm", "batch"},
        {"example", "--evaluate-every", "-1"}}) {
    Front front("example", "An example.", {}, {"data"});
    std::string norm = "rms";
    front.add_word("norm", norm, {"rms", "layer"}, "");
    int exit_code = 0;
    INFO(wrong[1]);
    CHECK_FALSE(front.parse(3, wrong.data(), exit_code));
    CHECK(exit_code == 2);
  }
}

TEST_CASE("the learning rate rises to its highest and falls to a tenth", "[examples]") {
  RunOptions options;
  options.steps = 100;
  options.lr = 1;
  CHECK(learning_rate(options, 0) == Approx(0.1));
  CHECK(learning_rate(options, 10) == Approx(1));
  CHECK(learning_rate(options, 55) == Approx(0.55));
  CHECK(learning_rate(options, 100) == Approx(0.1));
}

TEST_CASE("prefetch gives each step's value in turn and throws what making it threw",
          "[examples]") {
  Prefetch<int64_t> values(
      [](int64_t i) {
        if (i == 5) user_error("no fifth");
        return i * i;
      },
      2, 6);
  for (int64_t i = 2; i < 5; ++i) CHECK(values.next() == i * i);
  CHECK_THROWS_WITH(values.next(), Contains("no fifth"));
}

TEST_CASE("held-out windows lie side by side, the last batch is padded", "[examples]") {
  RunOptions options;
  options.batch = 4;
  const AnyText task(options, "", 64);
  const Corpus corpus = load_default_text(64);
  int64_t rows = 0;
  std::string seen;
  for (int64_t i = 0; i < task.evaluation_batches(); ++i) {
    const EvaluationBatch part = task.evaluation_batch(i);
    rows += part.rows;
    for (int64_t at = 0; at < part.rows * 64; ++at)
      seen += static_cast<char>(part.batch.at(1).second.at(at));
  }
  CHECK(rows == (int64_t(corpus.heldout.size()) - 1) / 64);
  CHECK(seen == corpus.heldout.substr(1, seen.size()));
}

TEST_CASE("windows are the text and the bytes that follow, the same for one seed", "[examples]") {
  const std::string text = "0123456789abcdefghij";
  const TokenBatch batch = random_windows(text, 5, 8, 3, 2);
  for (int64_t i = 0; i < 5 * 8; ++i) {
    const size_t at = text.find(static_cast<char>(batch.tokens.at(i)));
    REQUIRE(at + 1 < text.size());
    CHECK(static_cast<char>(batch.labels.at(i)) == text[at + 1]);
  }
  CHECK(bitwise_equal(random_windows(text, 5, 8, 3, 2).tokens, batch.tokens));
  CHECK(!bitwise_equal(random_windows(text, 5, 8, 3, 3).tokens, batch.tokens));
}

TEST_CASE("the default text has its parts", "[examples]") {
  const Corpus corpus = load_default_text(64);
  CHECK(corpus.train.size() > corpus.heldout.size());
  CHECK_THROWS_WITH(load_default_text(1 << 30), Contains("--seq"));
  CHECK_THROWS_WITH(load_file("no/such/file", 8), Contains("no/such/file"));
}

TEST_CASE("a sample prints nothing that a terminal could take for a command", "[examples]") {
  CHECK(printable(std::string("a\x1b[2J\n\tz\xff") + '\0') == "a?[2J\n\tz??");
}

}  // namespace gspmd::examples
