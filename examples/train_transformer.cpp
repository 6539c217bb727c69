// Trains a byte-level Transformer language model on a simulated mesh of devices.
//   train_transformer --mesh data=2,model=4 --recipe 2d --steps 100 --check
#include "examples/language_model.h"
#include "examples/ngram.h"
#include "examples/text_task.h"

namespace gspmd::examples {
namespace {

// The defaults are the demo's.
struct Options {
  std::string text;  // empty: the default text
  std::string norm = "rms";
  std::string positions = "learned";
  std::string dtype = "f32";
  int64_t layers = 2;
  int64_t d_model = 256;
  int64_t d_ff = 1024;
  int64_t heads = 8;
  int64_t seq = 128;
  int64_t sample = 0;
  bool bias = false;
  bool exact = false;

  void declare(Front& front) {
    front.add_text("text", text,
                   "text file, last tenth held out (default: Debian's licence texts)");
    front.add_size("layers", layers, "blocks");
    front.add_size("d-model", d_model, "width of the residual stream");
    front.add_size("d-ff", d_ff, "width of the feed-forward part");
    front.add_size("heads", heads, "attention heads; divide d-model");
    front.add_size("seq", seq, "bytes per window");
    front.add_word("norm", norm, {"rms", "layer"}, "");
    front.add_flag("bias", bias, "biases in the feed-forward part and the norms");
    front.add_word("positions", positions, {"learned", "none"}, "");
    front.add_word("dtype", dtype, {"f32", "f64"}, "of the weights");
    front.add_flag("exact", exact,
                   "integer-preserving form: loss and gradients of fixed weights, bitwise equal on "
                   "every mesh");
    front.add_count("sample", sample, "bytes to generate at the end");
  }

  models::TransformerConfig config() const {
    models::TransformerConfig config;
    config.layers = layers;
    config.model = d_model;
    config.hidden = d_ff;
    config.heads = heads;
    config.seq = seq;
    config.norm = norm == "rms" ? models::Norm::rms : models::Norm::layer;
    config.bias = bias;
    config.positions =
        positions == "learned" ? models::Positions::learned : models::Positions::none;
    config.form = exact ? models::Form::exact : models::Form::standard;
    config.dtype = dtype == "f32" ? DType::f32 : DType::f64;
    models::check(config);
    return config;
  }
};

class TransformerTask : public TextTask {
 public:
  TransformerTask(const RunOptions& run, const Options& options)
      : TextTask(run, options.text, options.seq), own_(options), config_(options.config()) {}

  std::shared_ptr<const models::Model> model(const Mesh& mesh) const override {
    return std::make_shared<models::TransformerModel>(config_, mesh, layout(mesh));
  }
  models::Leaves<Array> batch(int64_t step) const override {
    if (!own_.exact) return TextTask::batch(step);
    const uint32_t seed = options().seed + static_cast<uint32_t>(step) * 7919u;
    return models::random_batch(config_, options().batch, seed);
  }
  DType dtype() const override { return config_.dtype; }
  bool exact() const override { return own_.exact; }
  int64_t evaluation_batches() const override {
    return own_.exact ? 0 : TextTask::evaluation_batches();
  }
  double estimated_bytes(const Mesh& mesh) const override;
  std::vector<Result> results(const models::Trainer& trainer) const override;

 private:
  models::Layout layout(const Mesh& mesh) const {
    return mesh.num_devices() == 1 ? models::Layout()
                                   : models::layout_of_recipe(options().recipe, mesh);
  }

  Options own_;
  models::TransformerConfig config_;
};

double TransformerTask::estimated_bytes(const Mesh& mesh) const {
  const models::TransformerConfig& c = config_;
  const double tokens = double(options().batch) * double(c.seq);
  const double m = double(c.model), h = double(c.hidden);
  const double weights = double(c.layers) * (4 * m * m + 2 * m * h) + m * double(c.vocab + c.seq);
  const double activations =
      tokens *
      (double(c.layers) * (8 * m + 2 * h + double(c.heads) * double(c.seq)) + double(c.vocab));
  const double devices = double(mesh.num_devices());
  // Weights that no recipe splits are whole on every device.
  const models::Layout split = layout(mesh);
  const bool is_split = !split.weight_model.empty() || !split.weight_heads.empty();
  return double(dtype_size(c.dtype)) * ((is_split ? 1 : devices) * 4 * weights + activations) +
         devices * 1024;
}

std::vector<Result> TransformerTask::results(const models::Trainer& trainer) const {
  const Mesh& mesh = trainer.options().mesh;
  const LanguageModel trained{config_, layout(mesh), mesh, options().threads,
                              models::transformer_params(config_, trainer.params())};
  std::vector<Result> results;
  const auto add = [&](const char* key, const char* label, double nats) {
    results.push_back({key, label, nats, "nats/byte"});
  };
  const std::string &train = corpus().train, &heldout = corpus().heldout;
  if (!own_.exact) {
    add("heldout_loss", "held-out loss", heldout_loss(trained, heldout, options().batch));
    add("order2_loss", "  order-2 n-gram model", NgramModel(train, 2).nats_per_byte(heldout));
    add("order4_loss", "  order-4 n-gram model", NgramModel(train, 4).nats_per_byte(heldout));
  }
  if (own_.sample > 0) {
    // A place amid the held-out text: its beginning is a heading in capitals.
    const std::string prompt = heldout.substr(heldout.size() / 5, size_t(own_.seq));
    results.push_back(
        {"sample", "", 0, "", generate(trained, prompt, own_.sample, options().seed)});
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
  Options options;
  Front front("train_transformer",
              "Trains a byte-level Transformer language model on a simulated mesh.", defaults,
              gspmd::models::recipe_names());
  options.declare(front);
  return front.main(argc, argv,
                    [&] { return std::make_unique<TransformerTask>(front.options(), options); });
}
