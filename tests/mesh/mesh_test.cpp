#include "gspmd/mesh/mesh.h"

#include <catch2/catch.hpp>

#include "gspmd/base/error.h"
#include "gspmd/mesh/sharding.h"

using namespace gspmd;
using Catch::Matchers::Contains;

TEST_CASE("mesh: axes are digits of the position, first axis major", "[mesh]") {
  const Mesh mesh{{"data", 2}, {"model", 4}};
  CHECK(mesh.num_devices() == 8);
  CHECK(mesh.rank() == 2);
  CHECK(mesh.digit(0) == Digit{2, 4});
  CHECK(mesh.digit(1) == Digit{4, 1});
  CHECK(mesh.index("model") == 1);
  CHECK(mesh.size("data") == 2);
  CHECK(mesh.has("data"));
  CHECK_FALSE(mesh.has("pipe"));
  CHECK(to_string(mesh) == "mesh['data'=2,'model'=4]");
  CHECK(mesh == Mesh({{"data", 2}, {"model", 4}}, {0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_CASE("mesh: no axes is one device", "[mesh]") {
  CHECK(Mesh().num_devices() == 1);
  CHECK(to_string(Mesh()) == "mesh[]");
}

TEST_CASE("mesh: device ids may come in any order", "[mesh]") {
  const Mesh mesh({{"x", 2}, {"y", 2}}, {4, 0, 5, 1});
  CHECK(mesh.order()->device(2) == 5);
  CHECK(to_string(mesh) == "mesh['x'=2,'y'=2], device_ids=[4,0,5,1]");
}

TEST_CASE("mesh: mistakes name the axis and the line", "[mesh][error]") {
  CHECK_THROWS_WITH((Mesh{{"x", 2}, {"x", 4}}),
                    Contains("axes 0 and 1 are both named \"x\"") && Contains("mesh_test.cpp"));
  CHECK_THROWS_WITH((Mesh{{"", 2}}), Contains("axis 0 of 1 has no name"));
  CHECK_THROWS_WITH((Mesh{{"it's", 2}}), Contains("quote"));
  CHECK_THROWS_WITH((Mesh{{"x", 0}}), Contains("axis \"x\" has size 0"));
  CHECK_THROWS_WITH((Mesh{{"x", -4}}), Contains("size -4"));
  CHECK_THROWS_WITH((Mesh{{"x", 65536}, {"y", 65536}}), Contains("more than 2^31 devices"));
  CHECK_THROWS_WITH((Mesh{{"x", INT64_MAX}, {"y", INT64_MAX}}), Contains("more than 2^31"));
  CHECK_THROWS_WITH(Mesh({{"x", 4}}, {0, 1, 2}), Contains("3 device ids given for the 4 devices"));
  CHECK_THROWS_WITH(Mesh({{"x", 2}}, {3, 3}), Contains("device id 3 is given twice"));
  CHECK_THROWS_WITH(Mesh({{"x", 2}}, {-1, 3}), Contains("device id -1 is negative"));
  CHECK_THROWS_WITH(Mesh(std::vector<MeshAxis>(300, {"x", 1})), Contains("300 axes"));
  CHECK_THROWS_WITH((Mesh{{"x", 2}}.index("z", Site::here())),
                    Contains("no axis \"z\"; the axes are 'x'=2") && Contains("mesh_test.cpp"));
  CHECK_THROWS_WITH(Mesh().size("z"), Contains("the mesh has no axes"));
}

TEST_CASE("mesh_sharding: dims list their axes major first", "[mesh]") {
  const Mesh mesh{{"x", 2}, {"y", 4}};
  const Sharding s = mesh_sharding(mesh, {{1}, {}, {0}});
  CHECK(s == parse_sharding("{devices=[4,1,2]<=[2,4]T(1,0)}"));
  CHECK(to_string(s) == "{mesh['x'=2,'y'=4], [{'y'}, {}, {'x'}]}");
  CHECK(to_string(mesh_sharding(mesh, {{1, 0}, {}}, {false, true})) ==
        "{mesh['x'=2,'y'=4], [{'y', 'x'}, {?}]}");
  CHECK(mesh_sharding(mesh, {{}, {}}).is_replicated());
}

TEST_CASE("a named mesh and a word for all of its axes", "[mesh]") {
  CHECK(parse_sharding("{mesh['x'=2,'y'=4], manual}") == Sharding::manual());
  CHECK(parse_sharding("{mesh['x'=2], unreduced}") == parse_sharding("{unreduced}"));
  CHECK(parse_sharding("{mesh['x'=2,'y'=4], replicated}").is_replicated());
}

TEST_CASE("mesh_sharding: mistakes name axis and dims", "[mesh][error]") {
  const Mesh mesh{{"x", 2}, {"y", 4}};
  CHECK_THROWS_WITH(mesh_sharding(mesh, {{0}, {}, {1, 0}}, {}, Site::here()),
                    Contains("axis \"x\" splits dims 0 and 2 of a rank-3 tensor; an axis may "
                             "split one dim only (") &&
                        Contains("mesh_test.cpp"));
  CHECK_THROWS_WITH(mesh_sharding(mesh, {{0, 0}}),
                    Contains("splits dim 0 of a rank-1 tensor twice"));
  CHECK_THROWS_WITH(mesh_sharding(mesh, {{2}}),
                    Contains("dim 0 is split over mesh axis 2, but mesh['x'=2,'y'=4] has 2 axes"));
  CHECK_THROWS_WITH(mesh_sharding(mesh, {{-2}}), Contains("mesh axis -2"));
  CHECK_THROWS_WITH(mesh_sharding(mesh, {{0}}, {true, false}), Contains("2 open flags"));
}
