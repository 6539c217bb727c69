#include <catch2/catch.hpp>

#include "gspmd/ir/text.h"
#include "ops/samples.h"

namespace gspmd::testing {

TEST_CASE("factor rules read as the op's loop nest") {
  struct Row {
    const char* sample;
    const char* rule;
  };
  const std::vector<Row> rows = {
      {"add f32", "([i,j],[i,j])->([i,j])"},
      {"select by a scalar", "([],[i,j],[i,j])->([i,j])"},
      {"broadcast", "([i,k])->([i,j,k])"},
      {"transpose", "([j,k,i])->([i,j,k])"},
      {"reverse", "([i,j,k])->([i,j,k]) window={i,k}"},
      {"concatenate", "([i,j],[i,j],[i,j])->([i,j]) window={j}"},
      {"pad", "([i,j,k],[])->([i,j,k]) window={j,k}"},
      {"slice", "([i,j])->([i,j]) window={j}"},
      {"dynamic-slice", "([i,j],[],[])->([i,k]) blocked={j,k}"},
      {"dynamic-update-slice", "([i,j],[i,k],[],[])->([i,j]) window={j} blocked={k}"},
      {"reshape merges", "([j,k,i])->([l,i]) blocked={j,k,l}"},
      {"dot", "([i,k],[k,j])->([i,j]) reduction={k}"},
      {"dot with batch dims", "([j,k,i,m],[i,m,l,j])->([i,j,k,l]) reduction={m}"},
      {"dot of pred", "([i,k],[k,j])->([i,j]) reduction={k:or}"},
      {"reduce-max", "([i,j],[])->([j]) reduction={i:max}"},
      {"reduce of pairs", "([i,j],[i,j],[],[])->([i],[i]) blocked={j}"},
      {"gather rows", "([l,k],[i,j])->([i,j,k]) blocked={l}"},
      {"gather with batching dims", "([j,l,k],[i,j,m])->([i,j,k]) blocked={l,m}"},
      {"scatter-add rows", "([l,k],[i,j],[i,j,k])->([l,k]) reduction={i,j} blocked={l}"},
      {"scatter that overwrites", "([k,j],[i,l],[i,j])->([k,j]) blocked={i,k,l}"},
      {"iota", "()->([i,j])"},
      {"Sharding", "([i,j])->([i,j])"},
  };
  for (const Row& row : rows) {
    INFO(row.sample);
    bool found = false;
    for (const Sample& sample : samples()) {
      if (sample.name != row.sample) continue;
      const std::unique_ptr<Module> module = sample_module(sample);
      const Node& node = *module->entry()->root();
      CHECK(to_string(node.op().factors(node)) == row.rule);
      found = true;
    }
    CHECK(found);
  }
}

}  // namespace gspmd::testing
