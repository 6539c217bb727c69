#include <catch2/catch.hpp>

#include "fault_text.h"
#include "tools/run_command.h"

namespace gspmd {
namespace {

struct Fault {
  const char* verbs;  // separated by blanks: those that find it
  const char* what;   // part of the message
  std::string body;   // of the entry; "//here" stands on the line in question
  int code = 2;
};

const Fault kFaults[] = {
    {"partition run verify explain cost", "infeed: what a program sends and receives",
     "t = token[] after-all()\n i = (f32[8], token[]) infeed(t) //here\n"
     "ROOT r = f32[8] get-tuple-element(i), index=0"},
    {"run", "target \"odd\" is not known, so it cannot run",
     "a = f32[8] parameter(0)\n b = //here\n f32[8] custom-call(a),\n custom_call_target=\"odd\"\n"
     "ROOT r = f32[8] negate(b)",
     1},
    {"verify", "target \"odd\" is not known, so it cannot run",
     "a = f32[8] parameter(0)\n b = //here\n f32[8] custom-call(a),\n custom_call_target=\"odd\"\n"
     "ROOT r = f32[8] negate(b)"},
    {"run verify", "never ends",
     "a = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
     "ROOT w = f32[8] while(a), //here\n condition={ s = f32[8] parameter(0)\n"
     " ROOT go = pred[] constant(true) },\n body={ ROOT t = f32[8] parameter(0) }",
     1},
    {"propagate partition run verify explain cost visualize", "is no number from 0",
     "a = f32[8] parameter(0)\n ROOT b = f32[8] custom-call(a), custom_call_target=\"Sharding\", "
     "sharding={replicated}, frontend_attributes={gspmd.priority=\"x\"} //here"},
    {"partition run verify explain cost", "over device 9, the program has 4 devices",
     "a = f32[8] parameter(0)\n b = f32[8] negate(a), sharding={maximal device=9} //here\n"
     "ROOT r = f32[8] negate(b)"},
};

std::string word(const std::string& words, size_t& at) {
  const size_t begin = at, end = std::min(words.find(' ', at), words.size());
  at = end + 1;
  return words.substr(begin, end - begin);
}

}  // namespace

TEST_CASE("errors behind the parser name file and line of the instruction") {
  for (const Fault& fault : kFaults) {
    const std::string text = "HloModule m, num_partitions=4\nENTRY e {\n" + fault.body + "\n}\n";
    const std::string verbs = fault.verbs;
    for (size_t at = 0; at < verbs.size();) {
      const std::string verb = word(verbs, at);
      CAPTURE(verb, text);
      const CommandResult result = run_command(verb + " -", text);
      CHECK(result.code == fault.code);
      CHECK_THAT(result.err, Catch::Contains(fault.what) &&
                                 Catch::EndsWith(marked_place(text, "<stdin>") + "\n"));
      CHECK(occurrences(result.err, "(<stdin>:") == 1);
    }
  }
}

}  // namespace gspmd
