#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <numeric>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"
#include "mesh/naive.h"

using namespace gspmd;

namespace {

struct Form {
  std::string text;
  DeviceArray array;    // what the text says, subgroups of one device left out
  std::string printed;  // what we print for it
};

DeviceArray explicit_array(Dims dims, std::vector<int64_t> devices, std::string types = "") {
  return {std::move(dims), std::move(devices), std::move(types)};
}

DeviceArray iota_array(Dims dims, const Dims& reshape, const std::vector<int64_t>& transpose,
                       std::string types = "") {
  return {std::move(dims), naive::iota(reshape, transpose), std::move(types)};
}

// V1: what stands there is the array.
const std::vector<Form> kLists{
    {"{devices=[2,2]0,1,2,3}", explicit_array({2, 2}, {0, 1, 2, 3}), "{devices=[2,2]<=[4]}"},
    {"{devices=[2,2]0,2,1,3}", explicit_array({2, 2}, {0, 2, 1, 3}),
     "{devices=[2,2]<=[2,2]T(1,0)}"},
    {"{devices=[4]0,1,4,5}", explicit_array({4}, {0, 1, 4, 5}), "{devices=[4]0,1,4,5}"},
    {"{devices=[2,2]0,4,1,5}", explicit_array({2, 2}, {0, 4, 1, 5}), "{devices=[2,2]0,4,1,5}"},
    {"{devices=[2]6,2}", explicit_array({2}, {6, 2}), "{devices=[2]6,2}"},
    {"{devices=[4]3,2,1,0}", explicit_array({4}, {3, 2, 1, 0}), "{devices=[4]3,2,1,0}"},
    {"{devices=[2,3]5,4,3,2,1,0}", explicit_array({2, 3}, {5, 4, 3, 2, 1, 0}),
     "{devices=[2,3]5,4,3,2,1,0}"},
    {"{devices=[4]1,0,3,2}", explicit_array({4}, {1, 0, 3, 2}), "{devices=[4]1,0,3,2}"},
    {"{devices=[2,1,3]0,4,2,3,1,5}", explicit_array({2, 1, 3}, {0, 4, 2, 3, 1, 5}),
     "{devices=[2,1,3]0,4,2,3,1,5}"},
    {"{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}",
     explicit_array({2, 1, 2}, {0, 1, 2, 3}, "r"),
     "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"},
    {"{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}",
     explicit_array({2, 1, 2}, {0, 2, 1, 3}, "r"),
     "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"},
    {"{devices=[2,2]1,0,3,2 last_tile_dim_replicate}", explicit_array({2, 2}, {1, 0, 3, 2}, "r"),
     "{devices=[2,2]1,0,3,2 last_tile_dim_replicate}"},
    // Replicas in an order of their own: digits, but not by descending stride.
    {"{devices=[2,4]0,2,1,3,4,6,5,7 last_tile_dim_replicate}",
     explicit_array({2, 4}, {0, 2, 1, 3, 4, 6, 5, 7}, "r"),
     "{devices=[2,4]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}"},
    // Replicas in no order of digits.
    {"{devices=[2,4]0,1,3,2,4,5,7,6 last_tile_dim_replicate}",
     explicit_array({2, 4}, {0, 1, 3, 2, 4, 5, 7, 6}, "r"),
     "{devices=[2,4]0,1,3,2,4,5,7,6 last_tile_dim_replicate}"},
    {"{devices=[2,1]0,1 last_tile_dim_replicate}", explicit_array({2}, {0, 1}),
     "{devices=[2]<=[2]}"},
    {"{devices=[2,2]0,1,2,3 last_tile_dims={manual}}", explicit_array({2, 2}, {0, 1, 2, 3}, "m"),
     "{devices=[2,2]<=[4] last_tile_dims={manual}}"},
    {"{devices=[1,2,2]3,1,2,0 last_tile_dims={unreduced, replicated}}",
     explicit_array({1, 2, 2}, {3, 1, 2, 0}, "ur"),
     "{devices=[1,2,2]3,1,2,0 last_tile_dims={unreduced, replicated}}"},
};

const std::vector<Form> kIotas{
    {"{devices=[2,4]<=[8]}", iota_array({2, 4}, {8}, {0}), "{devices=[2,4]<=[8]}"},
    {"{devices=[8,1]<=[2,4]T(1,0)}", iota_array({8, 1}, {2, 4}, {1, 0}),
     "{devices=[8,1]<=[2,4]T(1,0)}"},
    {"{devices=[2,4,2]<=[2,4,2]T(2,1,0) last_tile_dim_replicate}",
     iota_array({2, 4, 2}, {2, 4, 2}, {2, 1, 0}, "r"),
     "{devices=[2,4,2]<=[2,4,2]T(2,1,0) last_tile_dim_replicate}"},
    {"{devices=[4,2]<=[2,2,2]T(2,0,1)}", iota_array({4, 2}, {2, 2, 2}, {2, 0, 1}),
     "{devices=[4,2]<=[4,2]T(1,0)}"},
    {"{devices=[2,2,2]<=[2,2,2]T(0,2,1)}", iota_array({2, 2, 2}, {2, 2, 2}, {0, 2, 1}),
     "{devices=[2,2,2]<=[2,2,2]T(0,2,1)}"},
    {"{devices=[3,4]<=[4,3]T(1,0)}", iota_array({3, 4}, {4, 3}, {1, 0}),
     "{devices=[3,4]<=[4,3]T(1,0)}"},
    {"{devices=[6,2]<=[3,4]T(1,0)}", iota_array({6, 2}, {3, 4}, {1, 0}), ""},
    // Tile dims that cut between the digits: only a list says it.
    {"{devices=[4,3]<=[2,6]T(1,0)}", iota_array({4, 3}, {2, 6}, {1, 0}),
     "{devices=[4,3]<=[2,6]T(1,0)}"},
    {"{devices=[2,2]<=[4] last_tile_dims={manual, replicated}}", iota_array({2, 2}, {4}, {0}, "mr"),
     "{devices=[2,2]<=[4] last_tile_dims={manual, replicated}}"},
    {"{devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}}",
     iota_array({2, 2, 2}, {8}, {0}, "rm"),
     "{devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}}"},
    {"{devices=[1,2,2,2]<=[8]T(0) last_tile_dims={unreduced,manual,replicated}}",
     iota_array({1, 2, 2, 2}, {8}, {0}, "umr"),
     "{devices=[1,2,2,2]<=[8] last_tile_dims={unreduced, manual, replicated}}"},
    {"{devices=[1,4]<=[2,2]T(1,0) last_tile_dims={unreduced}}",
     iota_array({1, 4}, {2, 2}, {1, 0}, "u"),
     "{devices=[1,4]<=[2,2]T(1,0) last_tile_dims={unreduced}}"},
    {"{devices=[2,2,2]<=[8] last_tile_dims={manual,manual}}", iota_array({2, 2, 2}, {8}, {0}, "mm"),
     "{devices=[2,2,2]<=[8] last_tile_dims={manual, manual}}"},
    {"  {  devices = [ 2 , 2 ] <= [ 2 , 2 ] T( 1 , 0 )  }", iota_array({2, 2}, {2, 2}, {1, 0}),
     "{devices=[2,2]<=[2,2]T(1,0)}"},
};

void check_form(const Form& form) {
  INFO(form.text);
  const Sharding sharding = parse_sharding(form.text);
  const int64_t rank = int64_t(form.array.dims.size() - form.array.subgroup_types.size());
  CHECK(device_array(sharding, rank) == form.array);
  CHECK(sharding.rank() == rank);
  if (!form.printed.empty()) CHECK(to_string(sharding) == form.printed);
  const Sharding again = parse_sharding(to_string(sharding), rank);
  CHECK(again == sharding);
  CHECK(device_array(again, rank) == form.array);
  CHECK(equivalent(again, sharding));
  // The V1 spelling of the same array is the same sharding.
  if (form.array.subgroup_types.find('u') != std::string::npos) return;
  std::vector<std::string> types;
  for (const char t : form.array.subgroup_types)
    types.emplace_back(t == 'm' ? "manual" : "replicated");
  std::string list = fmt::format("{{devices=[{}]{}", fmt::join(form.array.dims, ","),
                                 fmt::join(form.array.devices, ","));
  if (!types.empty()) list += fmt::format(" last_tile_dims={{{}}}", fmt::join(types, ","));
  CHECK(parse_sharding(list + "}") == sharding);
}

}  // namespace

TEST_CASE("sharding: explicit lists become our value and the same device array again",
          "[sharding]") {
  for (const Form& form : kLists) check_form(form);
}

TEST_CASE("sharding: iota forms become our value and the same device array again", "[sharding]") {
  for (const Form& form : kIotas) check_form(form);
}

TEST_CASE("sharding: every tiling of every permutation of 4 and many of 6 devices round-trips",
          "[sharding]") {
  for (const int64_t n : {4, 6}) {
    std::vector<int64_t> devices(static_cast<size_t>(n));
    std::iota(devices.begin(), devices.end(), 0);
    int64_t count = 0;
    do {
      if (n == 6 && count++ % 7 != 0) continue;
      for (int64_t a = 1; a <= n; ++a) {
        if (n % a != 0) continue;
        for (const char* types : {"", " last_tile_dim_replicate", " last_tile_dims={manual}"}) {
          const std::string text =
              fmt::format("{{devices=[{},{}]{}{}}}", a, n / a, fmt::join(devices, ","), types);
          const bool subgroup = *types != 0;
          const Sharding sharding = parse_sharding(text);
          if (sharding.is_replicated() || sharding.is_manual()) {
            CHECK((a == 1 && subgroup && sharding.is_manual() == (types[14] == 's')));
            continue;
          }
          Dims dims{a, n / a};
          std::string type = !subgroup ? "" : types[14] == 's' ? "m" : "r";
          if (subgroup && n / a == 1) {
            dims.pop_back();
            type.clear();
          }
          CAPTURE(text);
          CHECK(device_array(sharding, 1) == explicit_array(dims, devices, type));
          CHECK(parse_sharding(to_string(sharding)) == sharding);
        }
      }
    } while (std::next_permutation(devices.begin(), devices.end()));
  }
}

TEST_CASE("sharding: every transpose of a rank-4 iota, cut into every tile dims, is exact",
          "[sharding]") {
  const Dims reshape{2, 3, 2, 2};
  std::vector<int64_t> transpose{0, 1, 2, 3};
  do {
    const std::vector<int64_t> devices = naive::iota(reshape, transpose);
    for (int64_t a = 1; a <= 24; ++a) {
      for (int64_t b = 1; a * b <= 24; ++b) {
        if (24 % (a * b) != 0) continue;
        const std::string text = fmt::format("{{devices=[{},{},{}]<=[2,3,2,2]T({})}}", a, b,
                                             24 / (a * b), fmt::join(transpose, ","));
        CAPTURE(text);
        const Sharding sharding = parse_sharding(text);
        CHECK(device_array(sharding, 3) == explicit_array({a, b, 24 / (a * b)}, devices));
        CHECK(parse_sharding(to_string(sharding)) == sharding);
        CHECK(to_string(sharding).find("<=[") != std::string::npos);
      }
    }
  } while (std::next_permutation(transpose.begin(), transpose.end()));
}

namespace {

struct NamedForm {
  std::string text;
  std::string list;     // the same sharding in V1, worked out by hand
  std::string printed;  // empty: as `text`
};

const std::vector<NamedForm> kNamed{
    {"{mesh['x'=2,'y'=2], [{'x'}, {'y'}]}", "{devices=[2,2]0,1,2,3}", ""},
    {"{mesh['x'=2,'y'=2] [{'y'},{'x'}]}", "{devices=[2,2]0,2,1,3}",
     "{mesh['x'=2,'y'=2], [{'y'}, {'x'}]}"},
    {"{mesh['x'=2,'y'=4], [{'x', 'y'}, {}]}", "{devices=[8,1]0,1,2,3,4,5,6,7}", ""},
    {"{mesh['x'=2,'y'=4], [{'y', 'x'}]}", "{devices=[8]0,4,1,5,2,6,3,7}", ""},
    {"{mesh['x'=2,'y'=2], device_ids=[3,2,1,0], [{'x'}, {'y'}]}", "{devices=[2,2]3,2,1,0}", ""},
    {"{mesh['x'=2,'y'=2] device_ids=[0,2,1,3] [{'x'},{'y'}]}", "{devices=[2,2]0,2,1,3}",
     "{mesh['x'=2,'y'=2], device_ids=[0,2,1,3], [{'x'}, {'y'}]}"},
    {"{mesh['x'=2,'y'=2]device_ids=([2,2]T(1,0)), [{'x'},{'y'}]}", "{devices=[2,2]0,2,1,3}",
     "{mesh['x'=2,'y'=2], device_ids=[0,2,1,3], [{'x'}, {'y'}]}"},
    {"{mesh[\"x\"=4], device_ids=(4,5,8,9), [{\"x\"}]}", "{devices=[4]4,5,8,9}",
     "{mesh['x'=4], device_ids=[4,5,8,9], [{'x'}]}"},
    {"{mesh['x'=2,'y'=2], [{'x'}, {}]}", "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}", ""},
    {"{mesh['x'=8], [{'x':(1)2}, {'x':(4)2}]}",
     "{devices=[2,2,2]0,2,1,3,4,6,5,7 last_tile_dim_replicate}", ""},
    {"{mesh['x'=8], [{'x':(4)2, 'x':(1)2}]}",
     "{devices=[4,2]0,2,4,6,1,3,5,7 last_tile_dim_replicate}", ""},
    {"{mesh['x'=8], [{'x':(2)4}]}", "{devices=[4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}", ""},
    {"{mesh['x'=2,'y'=4], [{'x', 'y':(1)2}]}",
     "{devices=[4,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}", ""},
    {"{mesh['x'=4], [{'x':(1)2, 'x':(2)2}]}", "{devices=[4]0,1,2,3}", "{mesh['x'=4], [{'x'}]}"},
    {"{mesh['x'=2,'y'=2], [{'x'}], unreduced={'y'}}",
     "{devices=[2,2]0,1,2,3 last_tile_dims={unreduced}}", ""},
    {"{mesh['x'=2,'y'=2,'z'=2], [{'z'}], unreduced={'x'}, manual={'y'}}",
     "{devices=[2,2,2]0,4,2,6,1,5,3,7 last_tile_dims={manual, unreduced}}", ""},
    {"{mesh['x'=2,'y'=2,'z'=2], [{}], manual={'y', 'x'}}",
     "{devices=[1,4,2]0,1,4,5,2,3,6,7 last_tile_dims={manual,replicated}}", ""},
    {"{mesh['x'=2,'y'=2,'z'=1], [{'y'}, {'z'}], replicated={'x'}}",
     "{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}", "{mesh['x'=2,'y'=2,'z'=1], [{'y'}, {}]}"},
    {"{mesh['x'=3,'y'=2], [{'y'}p1, {'x'} p0]}", "{devices=[2,3]0,2,4,1,3,5}",
     "{mesh['x'=3,'y'=2], [{'y'}, {'x'}]}"},
    {"{mesh[x=2], [{x}]}", "{devices=[2]0,1}", "{mesh['x'=2], [{'x'}]}"},
};

}  // namespace

TEST_CASE("sharding: named forms have the device arrays of their lists", "[sharding]") {
  for (const NamedForm& form : kNamed) {
    INFO(form.text);
    const Sharding named = parse_sharding(form.text);
    const Sharding list = parse_sharding(form.list);
    CHECK(device_array(named, named.rank()) == device_array(list, list.rank()));
    CHECK(named == list);
    CHECK(equivalent(named, list));
    REQUIRE(named.mesh());
    CHECK(to_string(named) == (form.printed.empty() ? form.text : form.printed));
    CHECK(parse_sharding(to_string(named)) == named);
    CHECK(to_string_v2(named) == to_string(list));
  }
}

TEST_CASE("sharding: open dims and combiners survive the named form", "[sharding]") {
  for (const std::string text :
       {"{mesh['x'=8], [{'x':(1)2, 'x':(4)2, ?}, {?}], unreduced={'x':(2)2}}",
        "{mesh['x'=2], [{?}, {}]}", "{mesh['x'=2,'y'=2], [{'x'}], unreduced=max{'y'}}",
        "{mesh['x'=2,'y'=2,'z'=2], [{}], unreduced={'z'}, unreduced=min{'y', 'x'}}",
        "{mesh['x'=2], [{'x'}] shard_as 0}"}) {
    const Sharding sharding = parse_sharding(text);
    CHECK(to_string(sharding) == text);
    CHECK(parse_sharding(to_string(sharding)) == sharding);
  }
  CHECK(parse_sharding("{mesh['x'=2], [{?}, {}]}").open() == std::vector<bool>{true, false});
  CHECK_FALSE(parse_sharding("{mesh['x'=2], [{?}, {}]}") == Sharding::replicated());
  CHECK(parse_sharding("{mesh['x'=2], [{'x'}], unreduced=max{}}").unreduced().empty());
  const Sharding maximum =
      Sharding::tiled(iota_order(4), {{{2, 1}}}, {}, {{{{2, 2}}, Combiner::max}});
  CHECK(to_string(maximum) == "{mesh['a0'=2,'a1'=2], [{'a1'}], unreduced=max{'a0'}}");
  CHECK(parse_sharding(to_string(maximum)) == maximum);
  CHECK(to_string_v2(maximum) == "{devices=[2,2]<=[2,2]T(1,0) last_tile_dims={unreduced}}");
}

TEST_CASE("sharding: a mesh that cannot spell the digits is not printed", "[sharding]") {
  const auto mesh = std::make_shared<const Mesh>(Mesh{{"x", 2}, {"y", 3}});
  const Sharding s = parse_sharding("{devices=[3,2]<=[6]}").with_mesh(mesh);
  CHECK(to_string(s) == "{devices=[3,2]<=[6]}");
  const auto uneven = std::make_shared<const Mesh>(Mesh{{"x", 2}, {"y", 6}});
  const Sharding part = Sharding::tiled(iota_order(12), {{{2, 2}}}).with_mesh(uneven);
  CHECK(to_string(part) == "{devices=[2,6]<=[3,2,2]T(1,0,2) last_tile_dim_replicate}");
  const Sharding t = parse_sharding("{devices=[2,4]0,2,1,3,4,6,5,7 last_tile_dim_replicate}")
                         .with_mesh(std::make_shared<const Mesh>(Mesh{{"x", 8}}));
  CHECK(to_string(t) == "{devices=[2,4]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}");
}

TEST_CASE("sharding: the forms without tiles", "[sharding]") {
  CHECK(parse_sharding("{replicated}") == Sharding::replicated());
  CHECK(parse_sharding("replicated") == Sharding::replicated());
  CHECK(parse_sharding("sharding={manual}") == Sharding::manual());
  CHECK(parse_sharding("{ maximal device=3 }") == Sharding::maximal(3));
  CHECK(parse_sharding("{maximal_mesh[device_id=3], []}") == Sharding::maximal(3));
  CHECK(parse_sharding("{unknown}") == Sharding::unknown());
  CHECK(parse_sharding("{unreduced}") == Sharding::unreduced_everywhere());
  CHECK_FALSE(parse_sharding("{unreduced}").is_replicated());
  CHECK(parse_sharding("{unreduced=max}") == Sharding::unreduced_everywhere(Combiner::max));
  for (const std::string text :
       {"{replicated}", "{maximal device=3}", "{manual}", "{unknown}", "{unreduced}",
        "{unreduced=max}", "{unknown shard_as 0}", "{devices=[2]<=[2] shard_like 7}", "{}",
        "{{replicated}, {devices=[2]<=[2]}}"}) {
    CHECK(to_string(parse_sharding(text)) == text);
  }
}

TEST_CASE("sharding: arrays that split nothing are replicated, on one device maximal",
          "[sharding]") {
  CHECK(parse_sharding("{devices=[1,1,4]<=[4] last_tile_dim_replicate}") == Sharding::replicated());
  CHECK(parse_sharding("{devices=[1,1]0}") == Sharding::replicated());
  CHECK(parse_sharding("{devices=[1,1]<=[1]}") == Sharding::replicated());
  CHECK(parse_sharding("{devices=[1,1]5}") == Sharding::maximal(5));
  CHECK(parse_sharding("{devices=[1,1]0 last_tile_dims={manual}}") == Sharding::manual());
}

TEST_CASE("sharding: one manual subgroup of all devices is manual", "[sharding]") {
  for (const char* text : {"{devices=[1,4]<=[4] last_tile_dims={manual}}",
                           "{devices=[1,1,2,1,2]<=[4] last_tile_dims={manual, replicated, manual}}",
                           "{devices=[1,4]3,1,2,0 last_tile_dims={manual}}",
                           "{devices=[1,2]4,6 last_tile_dims={manual}}",
                           "{mesh['x'=2,'y'=2], [{}], manual={'y', 'x'}}"}) {
    INFO(text);
    CHECK(parse_sharding(text) == Sharding::manual());
    CHECK(to_string(parse_sharding(text)) == "{manual}");
  }
  // Of values of other ranks too, as {manual} itself.
  CHECK(parse_sharding("{devices=[1,4]<=[4] last_tile_dims={manual}}", 3) == Sharding::manual());
  CHECK_FALSE(parse_sharding("{devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}") ==
              Sharding::manual());
}

TEST_CASE("sharding: copies alone fit values of any rank", "[sharding]") {
  for (const char* text : {"{devices=[1,4]<=[4] last_tile_dim_replicate}",
                           "{devices=[4]3,1,2,0 last_tile_dim_replicate}",
                           "{devices=[1,2,2]<=[4] last_tile_dims={replicated,replicated}}"})
    for (const int64_t rank : {0, 1, 3})
      CHECK(parse_sharding(text, rank) == Sharding::replicated());
  CHECK_THROWS_AS(parse_sharding("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", 1), UserError);
  CHECK_THROWS_AS(parse_sharding("{devices=[1,4]0,1,2,2 last_tile_dim_replicate}", 1), UserError);
}

TEST_CASE("sharding: tuples are one sharding per leaf, metadata is dropped", "[sharding]") {
  const Sharding expected =
      Sharding::tuple({Sharding::replicated(), parse_sharding("{devices=[2]0,1}")});
  CHECK(parse_sharding("{{replicated}, {devices=[2]0,1}}") == expected);
  CHECK(parse_sharding("{{{replicated metadata={op_name=\"a}b\\\"\"}}}, {devices=[2]0,1}}") ==
        expected);
  CHECK(parse_sharding("{devices=[2]0,1 metadata={{op_name=\"a\"}, {op_name=\"b\"}}}") ==
        expected.elements()[1]);
  CHECK(parse_sharding("{}").elements().empty());
}

TEST_CASE("sharding: shard groups keep their number and kind", "[sharding]") {
  const Sharding as = parse_sharding("{devices=[2]<=[2] shard_as 0}");
  const Sharding like = parse_sharding("{devices=[2]<=[2] shard_like 0}");
  CHECK(as.shard_group() == 1);
  CHECK(as.shard_group_is_as());
  CHECK_FALSE(as == like);
  CHECK_FALSE(as == parse_sharding("{devices=[2]<=[2]}"));
  CHECK(equivalent(as, like));
}

TEST_CASE("sharding: equal device arrays over different orders are equal", "[sharding]") {
  const Mesh mesh({{"x", 2}, {"y", 2}}, {0, 2, 1, 3});
  const Sharding named = mesh_sharding(mesh, {{0}, {1}});
  const Sharding plain = parse_sharding("{devices=[2,2]<=[2,2]T(1,0)}");
  CHECK(named.order() != plain.order());
  CHECK(named == plain);
  CHECK(to_string_v2(named) == to_string(plain));
  CHECK_FALSE(named == parse_sharding("{devices=[2,2]<=[4]}"));
  // Replicas in another order: another array, the same tiles.
  const Sharding a = parse_sharding("{devices=[2,2]0,1,2,3 last_tile_dim_replicate}");
  const Sharding b = parse_sharding("{devices=[2,2]1,0,3,2 last_tile_dim_replicate}");
  CHECK_FALSE(a == b);
  CHECK(equivalent(a, b));
  CHECK_FALSE(equivalent(a, parse_sharding("{devices=[2,2]2,3,0,1 last_tile_dim_replicate}")));
}
