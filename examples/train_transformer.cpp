// Trains a byte-level Transformer language model on a simulated mesh of devices.
//   train_transformer --mesh data=2,model=4 --recipe 2d --steps 100 --check
#include "examples/language_model.h"
#include "examples/ngram.h"
#include "examples/text_task.h"
#include "examples/transformer_options.h"

namespace gspmd::examples {
namespace {

class TransformerTask : public TextTask {
 public:
  TransformerTask(const RunOptions& run, const TransformerOptions& options)
      : TextTask(run, options.text, options.seq), own_(options), config_(options.config()) {}

  std::shared_ptr<const models::Model> model(const Mesh& mesh) const override {
    if (own_.is_pipelined()) return std::make_shared<Pipelined>(pipelined(mesh));
    return std::make_shared<models::TransformerModel>(config_, mesh, layout(mesh));
  }
  models::Leaves<Array> batch(int64_t step) const override {
    if (!own_.exact) return TextTask::batch(step);
    const uint32_t seed = options().seed + static_cast<uint32_t>(step) * 7919u;
    return models::random_batch(config_, options().batch, seed);
  }
  DType dtype() const override { return config_.dtype; }
  bool exact() const override { return own_.exact; }
  bool makes_microbatches() const override { return own_.is_pipelined(); }
  int64_t evaluation_batches() const override {
    return own_.exact ? 0 : TextTask::evaluation_batches();
  }
  double estimated_bytes(const Mesh& mesh) const override;
  std::vector<Result> results(const models::Trainer& trainer) const override;

 private:
  using Pipelined = models::PipelinedTransformerModel;

  models::Layout layout(const Mesh& mesh) const {
    if (mesh.num_devices() == 1) return {};
    return own_.is_pipelined() ? models::pipeline_layout(options().recipe, mesh, kStageAxis)
                               : models::layout_of_recipe(options().recipe, mesh);
  }
  Pipelined pipelined(const Mesh& mesh) const {
    return {config_, own_.pipeline_on(mesh, options().microbatches), mesh, layout(mesh)};
  }
  LanguageModel trained(const models::Trainer& trainer) const;

  TransformerOptions own_;
  models::TransformerConfig config_;
};

double TransformerTask::estimated_bytes(const Mesh& mesh) const {
  const models::TransformerConfig& c = config_;
  const double tokens = double(options().batch) * double(c.seq);
  const double m = double(c.model), h = double(c.hidden);
  const double weights = double(c.layers) * (4 * m * m + 2 * m * h) + m * double(c.vocab + c.seq);
  const double scores = tokens * double(c.layers) * double(c.heads) * double(c.seq);
  const double activations = models::kept_activations(c, options().batch) + scores;
  const double devices = double(mesh.num_devices());
  // Weights that no recipe splits are whole on every device.
  const models::Layout split = layout(mesh);
  const bool is_split = !split.weight_model.empty() || !split.weight_heads.empty();
  return double(dtype_size(c.dtype)) * ((is_split ? 1 : devices) * 4 * weights + activations) +
         devices * 1024;
}

LanguageModel TransformerTask::trained(const models::Trainer& trainer) const {
  const Mesh& mesh = trainer.options().mesh;
  LanguageModel result{config_, layout(mesh), mesh, options().threads, {}};
  if (own_.is_pipelined()) {
    const Pipelined model = pipelined(mesh);
    result.config = model.config();
    result.params = model.plain_params(trainer.params());
  } else {
    result.params = models::transformer_params(config_, trainer.params());
  }
  return result;
}

std::vector<Result> TransformerTask::results(const models::Trainer& trainer) const {
  const LanguageModel model = trained(trainer);
  std::vector<Result> results;
  const auto add = [&](const char* key, const char* label, double nats) {
    results.push_back({key, label, nats, "nats/byte"});
  };
  const std::string &train = corpus().train, &heldout = corpus().heldout;
  if (!own_.exact) {
    add("heldout_loss", "held-out loss", heldout_loss(model, heldout, options().batch));
    add("order2_loss", "  order-2 n-gram model", NgramModel(train, 2).nats_per_byte(heldout));
    add("order4_loss", "  order-4 n-gram model", NgramModel(train, 4).nats_per_byte(heldout));
  }
  if (own_.sample > 0) {
    // A place amid the held-out text: its beginning is a heading in capitals.
    const std::string prompt = heldout.substr(heldout.size() / 5, size_t(own_.seq));
    results.push_back({"sample", "", 0, "", generate(model, prompt, own_.sample, options().seed)});
  }
  return results;
}

}  // namespace
}  // namespace gspmd::examples

int main(int argc, char** argv) {
  using namespace gspmd::examples;
  RunOptions defaults;
  defaults.recipe = "2d";
  defaults.steps = 600;
  defaults.lr = 3e-3;
  TransformerOptions options;
  Front front("train_transformer",
              "Trains a byte-level Transformer language model on a simulated mesh.", defaults,
              gspmd::models::recipe_names());
  options.declare(front);
  return front.main(argc, argv,
                    [&] { return std::make_unique<TransformerTask>(front.options(), options); });
}
