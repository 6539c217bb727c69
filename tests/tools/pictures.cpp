// `gspmd visualize`, its page in a browser, and `gspmd run --trace`.
#include <fmt/format.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tools/run_command.h"

namespace gspmd {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Catch::Matchers::Contains;

// An empty folder of this process's own.
struct Folder {
  std::string path = fmt::format(GSPMD_BINARY_DIR "/tests/pictures-{}", getpid());
  Folder() { fs::remove_all(path), fs::create_directories(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
};

std::string read_text(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  pclose(pipe);
  return out;
}

// Every kind of layout: uneven, replicated, unreduced, manual, a tuple, more dims, many devices.
const char* const kLayouts = R"(HloModule layouts
ENTRY e {
  a = f32[7,6] parameter(0), sharding={devices=[4,2]<=[8]}
  b = f32[4,8,6,5] parameter(1), sharding={devices=[2,1,2,2]<=[8]}
  c = f32[16,12] parameter(2), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  d = f32[8,8] parameter(3), sharding={devices=[2,2,2]<=[8] last_tile_dims={unreduced}}
  e = f32[4096,4096] parameter(4), sharding={devices=[64,64,16]<=[65536] last_tile_dim_replicate}
  f = (f32[5], s32[]) parameter(5), sharding={{devices=[8]<=[8]}, {replicated}}
  ROOT r = f32[7,6] negate(a), sharding={devices=[4,2]<=[8]}
})";

}  // namespace

TEST_CASE("visualize draws the parameters and the root, or the instructions named") {
  const CommandResult all = run_command("visualize -", kLayouts);
  CHECK(all.err == "");
  CHECK(all.code == 0);
  CHECK_THAT(all.out, Contains("%a\nf32[7,6] {devices=[4,2]<=[8]}\n  shards f32[2,3]\n") &&
                          Contains("6:7 |   6    7\n") && Contains("dim 0 at 2:4:") &&
                          Contains("unreduced (sum) over 2 devices") && Contains("%r\n"));
  const CommandResult one = run_command("visualize - --tensor r --json", kLayouts);
  const Json json = Json::parse(one.out);
  REQUIRE(json.at("tensors").size() == 1);
  CHECK(json.at("tensors")[0].at("name") == "r");
  CHECK(json.at("tensors")[0].at("sharding") == "{devices=[4,2]<=[8]}");
  const CommandResult some = run_command("visualize - --all", kNetwork);
  CHECK(some.code == 0);
  CHECK(some.out.size() > run_command("visualize -", kNetwork).out.size());
  const CommandResult wrong = run_command("visualize - --tensor q", kLayouts);
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Contains("--tensor q: there is no instruction of that name"));
  const CommandResult nowhere = run_command("visualize - --html /no/such/page.html", kLayouts);
  CHECK(nowhere.code == 2);
  CHECK_THAT(nowhere.err, Contains("/no/such/page.html: cannot be written"));
}

// A browser lays the page out: every text lies inside its drawing, and no number of a device is
// wider than its tile. Skipped where no browser is installed.
TEST_CASE("the page of visualize is whole in a browser") {
  const std::string browser = output_of("command -v chromium || command -v chromium-browser");
  if (browser.empty()) {
    WARN("no chromium: not looked at");
    return;
  }
  const Folder folder;
  const std::string page = folder.file("page.html"), checked = folder.file("checked.html");
  REQUIRE(run_command("visualize - --html " + page, kLayouts).code == 0);
  std::string html = read_text(page);
  const std::string script = R"(<pre id="found"></pre><script>
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const box = e => e.getBoundingClientRect();
let texts = 0, outside = 0, tiles = 0, wide = 0;
for (const svg of document.querySelectorAll('svg')) {
  for (const text of svg.querySelectorAll('text')) { ++texts; if (!inside(box(text), box(svg))) ++outside; }
  for (const tile of svg.querySelectorAll('g')) {
    ++tiles;
    const text = tile.querySelector('text'), rects = tile.querySelectorAll('rect');
    if (box(text).width > box(rects[rects.length - 1]).width) ++wide;
  }
}
document.getElementById('found').textContent =
  JSON.stringify({texts, outside, tiles, wide, sections: document.querySelectorAll('section').length});
</script></body>)";
  html.replace(html.rfind("</body>"), 7, script);
  std::ofstream(checked, std::ios::binary) << html;
  const std::string dom = output_of(fmt::format(
      "HOME='{0}' timeout 60 {1} --headless --no-sandbox --disable-gpu --disable-dev-shm-usage "
      "--user-data-dir='{0}/profile' --dump-dom 'file://{2}' 2>/dev/null",
      folder.path, browser.substr(0, browser.find('\n')), checked));
  const size_t at = dom.find("<pre id=\"found\">");
  REQUIRE(at != std::string::npos);
  const std::string found = dom.substr(at + 16, dom.find("</pre>", at) - at - 16);
  INFO(found);
  const Json json = Json::parse(found);
  CHECK(json.at("sections") == 8);
  CHECK(json.at("tiles").get<int>() > 150);
  CHECK(json.at("texts").get<int>() > json.at("tiles").get<int>());
  CHECK(json.at("outside") == 0);
  CHECK(json.at("wide") == 0);
}

TEST_CASE("run --trace writes what each device did, and the same results") {
  const Folder folder;
  const std::string file = folder.file("trace.json");
  const CommandResult plain = run_command("run - --threads 2", kNetwork);
  const CommandResult traced = run_command("run - --threads 2 --trace " + file, kNetwork);
  CHECK(traced.code == 0);
  CHECK(traced.out == plain.out);
  const Json trace = Json::parse(read_text(file));
  std::set<int64_t> devices;
  std::set<std::string> collectives, wanted;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") devices.insert(event.at("tid").get<int64_t>());
    if (event.value("cat", "") == "collective")
      collectives.insert(event.at("args").at("opcode").get<std::string>());
  }
  CHECK(devices.size() == 8);
  const Json explained = Json::parse(run_command("explain - --json", kNetwork).out);
  for (const Json& c : explained.at("collectives")) wanted.insert(c.at("kind"));
  CHECK(!wanted.empty());
  CHECK(collectives == wanted);
  const std::string copies =
      "HloModule c, num_partitions=2\nENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] "
      "collective-permute(x), source_target_pairs={{0,1},{1,0}} }\n";
  CHECK(run_command("run - --trace " + file, copies).code == 0);
  CHECK_THAT(read_text(file), Contains("\"opcode\":\"collective-permute\""));
  const CommandResult wrong = run_command("run - --trace /no/such/trace.json", kNetwork);
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Contains("/no/such/trace.json: cannot be written"));
}

}  // namespace gspmd
