// Trains a byte-level Transformer with experts, and a dense one of as much work beside it.
//   train_moe --mesh data=8 --recipe experts --experts 8 --steps 600
#include <fmt/format.h>

#include "examples/text_task.h"
#include "models/moe_model.h"
#include "models/transformer_model.h"

namespace gspmd::examples {
namespace {

struct Options {
  std::string text;
  std::string routing = "top2", gating = "released", second = "random", dispatch = "einsum";
  std::string compare = "dense";
  int64_t layers = 4, d_model = 128, d_ff = 512, heads = 4, seq = 128;
  int64_t experts = 8, expert_ff = 256, group = 0;
  double capacity = 2, aux_weight = 0.01, z_weight = 0.001;

  void declare(Front& front) {
    front.add_text("text", text, "text file, last tenth held out (default: licence texts)");
    front.add_size("layers", layers, "blocks, an even number; every other one has experts");
    front.add_size("d-model", d_model, "width of the residual stream");
    front.add_size("d-ff", d_ff, "width of the dense feed-forward layers");
    front.add_size("heads", heads, "attention heads; divide d-model");
    front.add_size("seq", seq, "bytes per window");
    front.add_size("experts", experts, "of a layer");
    front.add_size("expert-ff", expert_ff, "width of one expert");
    front.add_count("group", group, "tokens that compete for places; 0: a window");
    front.add_number("capacity", capacity, "places of all experts per token");
    front.add_word("routing", routing, {"top2", "dropless", "expert-choice"}, "who chooses whom");
    front.add_word("gating", gating, {"published", "released"}, "rules of capacity");
    front.add_word("second", second, {"random", "sampling", "all"}, "policy of second experts");
    front.add_word("dispatch", dispatch, {"einsum", "gather"}, "of tokens to experts");
    front.add_number("aux-weight", aux_weight, "of the loss that balances loads");
    front.add_number("z-weight", z_weight, "of the loss that keeps the router's logits small");
    front.add_word("compare", compare, {"dense", "none"}, "train a dense model too");
  }

  models::MoeTransformerConfig config() const {
    models::MoeTransformerConfig c;
    c.dense.layers = layers;
    c.dense.model = c.moe.model = d_model;
    c.dense.hidden = d_ff;
    c.dense.heads = heads;
    c.dense.seq = seq;
    c.moe.hidden = expert_ff;
    c.moe.group = group == 0 ? seq : group;
    c.moe.activation = models::Activation::gelu;
    c.moe.routing = models::routing_of_name(routing);
    c.moe.dispatch = models::dispatch_of_name(dispatch);
    c.moe.gating.experts = experts;
    c.moe.gating.capacity_factor = capacity;
    c.moe.gating.form = models::gating_form_of_name(gating);
    c.moe.gating.second = models::second_expert_of_name(second);
    c.aux_weight = aux_weight;
    c.z_weight = z_weight;
    models::check(c);
    return c;
  }
};

class MoeTask : public TextTask {
 public:
  MoeTask(const RunOptions& run, const Options& options)
      : TextTask(run, options.text, options.seq), own_(options), config_(options.config()) {}

  std::shared_ptr<const models::Model> model(const Mesh& mesh) const override {
    return std::make_shared<models::MoeTransformerModel>(config_, mesh, layout(mesh));
  }
  models::Leaves<Array> batch(int64_t step) const override {
    return with_seed(TextTask::batch(step), step);
  }
  EvaluationBatch evaluation_batch(int64_t index) const override {
    EvaluationBatch held = TextTask::evaluation_batch(index);
    held.batch = with_seed(std::move(held.batch), index);
    return held;
  }
  double estimated_bytes(const Mesh& mesh) const override {
    const double expert = double(own_.d_model) * double(own_.expert_ff);
    const double others = models::training_flops(config_, 1) / 6 / double(own_.seq);
    return 16 * (double(own_.layers) * double(own_.experts) * expert +
                 double(mesh.num_devices()) * others);
  }
  std::vector<Result> results(const models::Trainer& trainer) const override;

 private:
  models::MoeTransformerLayout layout(const Mesh& mesh) const {
    return models::moe_layout_of_recipe(options().recipe, mesh);
  }
  models::Leaves<Array> with_seed(models::Leaves<Array> batch, int64_t number) const {
    if (own_.routing == "top2" && own_.second != "all")
      batch.emplace_back("seed", Array::scalar(int32_t(options().seed * 1000003 + number)));
    return batch;
  }
  models::TransformerConfig dense() const {  // of as much work per token
    models::TransformerConfig c = config_.dense;
    const double experts = models::forward_flops(config_.moe) / (4 * double(c.model));
    return c.hidden = int64_t((double(c.hidden) + experts) / 2 + 0.999), c;
  }

  Options own_;
  models::MoeTransformerConfig config_;
};

std::vector<Result> MoeTask::results(const models::Trainer& trainer) const {
  std::vector<Result> results;
  const Mesh& mesh = trainer.options().mesh;
  const auto loads =
      models::device_loads(trainer.model_state().at(0).second, mesh, layout(mesh).moe);
  const std::string text = fmt::format("{:.0f}", fmt::join(loads, " "));
  results.push_back({"device_loads", "choices per device", 0, "", text});
  const auto add_work = [&](const char* key, const char* label, double flops) {
    results.push_back(
        {key, label, flops / double(options().batch * own_.seq) / 1e6, "MFLOP/token"});
  };
  add_work("flops", "work", models::training_flops(config_, options().batch));
  if (own_.compare == "none") return results;
  models::TrainerOptions other = trainer.options();
  other.model =
      std::make_shared<models::TransformerModel>(dense(), mesh, models::data_layout(mesh));
  models::Trainer rival(other);
  for (int64_t step = 0; step < options().steps; ++step)
    rival.step(TextTask::batch(step), learning_rate(options(), step));
  auto evaluation = rival.evaluation();
  for (int64_t i = 0; i < evaluation_batches(); ++i) {
    const EvaluationBatch held = TextTask::evaluation_batch(i);
    evaluation.add(held.batch, held.rows);
  }
  add_work("dense_flops", "  dense model", models::training_flops(dense(), options().batch));
  results.push_back({"dense_loss", "held-out loss, dense model", evaluation.averages().at(0).second,
                     "nats/byte"});
  return results;
}

}  // namespace
}  // namespace gspmd::examples

int main(int argc, char** argv) {
  using namespace gspmd::examples;
  RunOptions defaults;
  defaults.steps = 600;
  defaults.lr = 3e-3;
  Options options;
  Front front("train_moe", "Trains a byte-level Transformer with a mixture of experts.", defaults,
              gspmd::models::moe_recipe_names());
  options.declare(front);
  return front.main(argc, argv,
                    [&] { return std::make_unique<MoeTask>(front.options(), options); });
}
