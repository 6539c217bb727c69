#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "models/pipeline.h"
#include "models/pipeline_schedule.h"
#include "pipeline/stacks.h"

namespace gspmd::models::schedule_test {
namespace {

std::string error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("schedule: idle slots are those of the formulas", "[pipeline]") {
  for (const int64_t stages : {1, 2, 4, 8})
    for (const int64_t microbatches : {1, 4, 8, 32})
      for (const int64_t rounds : {1, 2, 3}) {
        if (rounds > 1 && microbatches < stages) continue;
        const PipelineSchedule schedule({rounds > 1 ? PipelineKind::circular : PipelineKind::gpipe,
                                         stages, microbatches, rounds});
        INFO(stages << " stages, " << microbatches << " microbatches, " << rounds << " rounds");
        CHECK(schedule.iterations() == rounds * microbatches + stages - 1);
        int64_t idle = 0;
        for (int64_t i = 0; i < schedule.iterations(); ++i)
          for (int64_t s = 0; s < stages; ++s) idle += !schedule.at(i, s);
        CHECK(idle == stages * (stages - 1));
        CHECK(idle == schedule.idle_slots());
        CHECK(schedule.bubble() ==
              Approx(double(stages - 1) / double(rounds * microbatches + stages - 1)));
      }
}

TEST_CASE("schedule: every micro-batch passes the stages of every round in order", "[pipeline]") {
  for (const auto& [stages, microbatches, rounds] :
       {std::tuple<int64_t, int64_t, int64_t>{4, 4, 3}, {4, 9, 2}, {1, 3, 4}, {3, 2, 1}}) {
    const PipelineSchedule schedule(
        {rounds > 1 ? PipelineKind::circular : PipelineKind::gpipe, stages, microbatches, rounds});
    // By micro-batch: when it was last seen; which (round, stage) it is next at.
    std::map<int64_t, int64_t> seen, next;
    for (int64_t i = 0; i < schedule.iterations(); ++i)
      for (int64_t s = 0; s < stages; ++s) {
        const auto slot = schedule.at(i, s);
        if (!slot) continue;
        INFO("micro-batch " << slot->microbatch << " at iteration " << i << ", stage " << s);
        CHECK((!seen.contains(slot->microbatch) || seen[slot->microbatch] < i));
        CHECK(slot->round * stages + s == next[slot->microbatch]++);
        seen[slot->microbatch] = i;
      }
    for (int64_t m = 0; m < microbatches; ++m) CHECK(next[m] == rounds * stages);
  }
}

TEST_CASE("schedule: the loop computes what it says, slot by slot", "[pipeline]") {
  for (const auto& [kind, stages, microbatches, rounds] :
       {std::tuple<PipelineKind, int64_t, int64_t, int64_t>{PipelineKind::gpipe, 4, 6, 1},
        {PipelineKind::circular, 3, 4, 2},
        {PipelineKind::circular, 4, 4, 3}}) {
    const PipelineSchedule schedule({kind, stages, microbatches, rounds});
    PipelineOptions options;
    options.kind = kind;
    options.stages = stages;
    const int64_t per_stage = 2;
    Dims dims{stages * per_stage};
    if (kind == PipelineKind::circular) dims.insert(dims.begin(), rounds);
    const auto slots = [&](Tensor weights, Tensor x) {
      const models::detail::PipelineParts parts(options, {{"w", weights}}, {{"", x}}, Site::here());
      return map(
          [&](const Tensor& i) {
            const std::vector<Tensor> places = parts.places(i);
            return std::vector<Tensor>{convert(parts.valid(i), DType::s32), places[0], places[1]};
          },
          parts.iterations());
    };
    const Array weights(DType::f32, dims), x(DType::f32, {microbatches, 2});
    const std::vector<Array> got = compile(slots, {}, weights, x)(weights, x);
    REQUIRE(got[0].size() == schedule.slots());
    int64_t idle = 0;
    for (int64_t i = 0; i < schedule.iterations(); ++i)
      for (int64_t s = 0; s < stages; ++s) {
        const auto slot = schedule.at(i, s);
        const int64_t at = i * stages + s;
        INFO("iteration " << i << ", stage " << s);
        REQUIRE((got[0].at(at) == 1) == slot.has_value());
        idle += !slot;
        if (!slot) continue;
        CHECK(got[1].at(at) == double((slot->round * stages + s) * per_stage));
        CHECK(got[2].at(at) == double(slot->microbatch));
      }
    CHECK(idle == stages * (stages - 1));
  }
}

TEST_CASE("schedule: a picture", "[pipeline]") {
  CHECK(to_string(PipelineSchedule({PipelineKind::gpipe, 3, 4, 1})) ==
        "stage 0     0   1   2   3   .   .\n"
        "stage 1     .   0   1   2   3   .\n"
        "stage 2     .   .   0   1   2   3\n");
  CHECK(to_string(PipelineSchedule({PipelineKind::circular, 2, 3, 2})) ==
        "stage 0    0a  1a  2a  0b  1b  2b   .\n"
        "stage 1     .  0a  1a  2a  0b  1b  2b\n");
}

TEST_CASE("schedule: wrong sizes are told", "[pipeline][errors]") {
  const auto make = [](PipelineKind kind, int64_t stages, int64_t microbatches, int64_t rounds) {
    return error_of([=] { PipelineSchedule({kind, stages, microbatches, rounds}); });
  };
  CHECK_THAT(make(PipelineKind::gpipe, 0, 1, 1),
             Catch::Contains("pipeline: stages is 0; it must be at least 1"));
  CHECK_THAT(make(PipelineKind::gpipe, 2, 0, 1),
             Catch::Contains("pipeline: microbatches is 0; it must be at least 1"));
  CHECK_THAT(make(PipelineKind::gpipe, 2, 2, 3),
             Catch::Contains("gpipe has one round, not 3; choose circular"));
  CHECK_THAT(make(PipelineKind::circular, 4, 3, 2),
             Catch::Contains("3 microbatches go round 4 stages; give at least as many"));
  CHECK_THAT(error_of([] { pipeline_kind("gpip"); }),
             Catch::Contains("there is no \"gpip\"; the kinds are gpipe, circular"));
}

TEST_CASE("pipeline: wrong weights and inputs are told", "[pipeline][errors]") {
  const auto run = [](Dims w, Dims v, Dims x, PipelineOptions options) {
    const auto fn = [=](Tensor a, Tensor b, Tensor in) {
      return pipeline([](const std::pair<Tensor, Tensor>& p,
                         const Tensor& t) { return t * p.first + p.second; },
                      std::pair{a, b}, in, options);
    };
    return error_of(
        [&] { trace(fn, Shape(DType::f32, w), Shape(DType::f32, v), Shape(DType::f32, x)); });
  };
  PipelineOptions two;
  two.stages = 2;
  CHECK_THAT(run({4, 3}, {5, 3}, {2, 3}, two),
             Catch::Contains("the weight \"1\" is f32[5,3], but \"0\" begins with [4]"));
  CHECK_THAT(run({5, 3}, {5, 3}, {2, 3}, two),
             Catch::Contains("2 stages do not divide the 5 layers"));
  CHECK_THAT(run({4, 3}, {4, 3}, {}, two), Catch::Contains("x is f32[]; every leaf is"));
  CHECK_THAT(run({}, {}, {2, 3}, two),
             Catch::Contains("the weight \"0\" is f32[]; weights are [layers, ...]"));
  two.kind = PipelineKind::circular;
  CHECK_THAT(run({4}, {4}, {2, 3}, two),
             Catch::Contains("circular weights are [rounds, layers / rounds, ...]"));
  CHECK_THAT(run({2, 3, 1}, {2, 3, 1}, {2, 3}, two),
             Catch::Contains("2 stages do not divide the 3 layers of a round"));
  CHECK_THAT(run({2, 2, 1}, {2, 2, 1}, {1, 3}, two),
             Catch::Contains("1 microbatches go round 2 stages"));
  two.stages = 0;
  CHECK_THAT(run({4}, {4}, {2, 3}, two), Catch::Contains("stages is 0"));
  CHECK_THAT(error_of([] {
               trace([](Tensor x) { return to_microbatches(x, 3); }, Shape(DType::f32, {4, 2}));
             }),
             Catch::Contains("3 microbatches do not divide the 4 rows of the batch"));
}

}  // namespace gspmd::models::schedule_test
