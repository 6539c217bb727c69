#include "examples/options.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "examples/corpus.h"
#include "examples/language_model.h"

namespace gspmd::examples {
namespace {

using Catch::Matchers::Contains;

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

TEST_CASE("options: words that are no choice are errors that list the choices", "[examples]") {
  TrainOptions options;
  options.optimizer = "lamb";
  CHECK_THROWS_WITH(trainer_options(options),
                    Contains("--optimizer") && Contains("sgd, adam, adamw"));
  options = {};
  options.dtype = "f16";
  CHECK_THROWS_WITH(trainer_options(options), Contains("f32, f64"));
  options = {};
  for (const double lr : {-1.0, double(NAN), double(INFINITY)}) {
    options.lr = lr;
    CHECK_THROWS_WITH(trainer_options(options), Contains("--lr"));
  }
}

TEST_CASE("options: the last of an option given twice counts", "[examples]") {
  const char* arguments[] = {"train_transformer", "--steps", "1", "--steps", "3", "--json"};
  TrainOptions options;
  int exit_code = 0;
  REQUIRE(parse_options(6, arguments, options, exit_code));
  CHECK(options.steps == 3);
  CHECK(options.json);
}

TEST_CASE("options: a recipe that there is not is an error that lists the recipes", "[examples]") {
  TrainOptions options;
  options.recipe = "4d";
  CHECK_THROWS_WITH(trainer_options(options), Contains("2d-attempt1"));
}

TEST_CASE("the learning rate rises to its highest and falls to a tenth", "[examples]") {
  TrainOptions options;
  options.steps = 100;
  options.lr = 1;
  CHECK(learning_rate(options, 0) == Approx(0.1));
  CHECK(learning_rate(options, 10) == Approx(1));
  CHECK(learning_rate(options, 55) == Approx(0.55));
  CHECK(learning_rate(options, 100) == Approx(0.1));
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
