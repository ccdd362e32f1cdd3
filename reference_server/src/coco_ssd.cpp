#include "coco_ssd.h"

#include <opencv2/core.hpp>
#include <opencv2/dnn.hpp>

#include "errors.h"
#include "model_files.h"
#include "resize.h"

namespace reference {
namespace {

constexpr const char* kStem = "ssdlite_mobilenet_v2_coco";
// As trained: value * 2/255 - 1, stretched to the input, and boxes of a class suppressed above this overlap.
constexpr int kInputPx = 300;
constexpr float kInputScale = 2.0F / 255.0F;
constexpr float kInputOffset = -1.0F;
constexpr double kIouThreshold = 0.6;
constexpr std::size_t kMaxDetections = 100;

class CocoSsd : public Detector {
 public:
  explicit CocoSsd(std::shared_ptr<const CocoSsdFiles> files) : files_(std::move(files)) {
    for (const std::string& label : files_->labels) named_.push_back(label.empty() ? 0 : 1);
    if (!std::filesystem::is_regular_file(files_->model)) {
      throw DetectorError(files_->model.string() + ": no such file");
    }
    net_ = cv::dnn::readNetFromONNX(files_->model.string());
    net_.setPreferableBackend(cv::dnn::DNN_BACKEND_OPENCV);
    net_.setPreferableTarget(cv::dnn::DNN_TARGET_CPU);
    names_ = net_.getUnconnectedOutLayersNames();
    tensor_ = 0;
    run();
  }

  const std::vector<std::string>& labels() const override { return files_->labels; }
  std::optional<std::pair<int, int>> input_wh() const override { return std::make_pair(kInputPx, kInputPx); }

  std::vector<Detection> detect(const Image& image, const Query& query) override {
    resize_to_tensor(image, kInputPx, kInputPx, kInputScale, kInputOffset, tensor_.ptr<float>());
    const SsdOutput output = run();
    std::vector<std::uint8_t> wanted = named_;
    for (std::size_t id = 0; id < query.class_mask.size(); ++id) wanted[id] &= query.class_mask[id];
    return suppress(decode_ssd(output, files_->anchors, image.width, image.height, query.min_score, wanted),
                    kIouThreshold, kMaxDetections);
  }

 private:
  // Infers; which output is which their shapes tell.
  SsdOutput run() {
    net_.setInput(tensor_);
    net_.forward(outputs_, names_);
    const int anchors = static_cast<int>(files_->anchors.size());
    const int classes = static_cast<int>(files_->labels.size());
    const cv::Mat* encodings = nullptr;
    const cv::Mat* logits = nullptr;
    for (const cv::Mat& output : outputs_) {
      if (output.dims != 3 || output.size[1] != anchors || output.type() != CV_32F) continue;
      if (output.size[2] == 4) encodings = &output;
      if (output.size[2] == classes) logits = &output;
    }
    if (encodings == nullptr || logits == nullptr) {
      throw DetectorError(files_->model.string() + ": expected outputs of " + std::to_string(anchors) +
                          " anchors with 4 encodings and " + std::to_string(classes) + " classes");
    }
    return {encodings->ptr<float>(), logits->ptr<float>(), classes};
  }

  const std::shared_ptr<const CocoSsdFiles> files_;
  // Class 0 is the background, and ids that COCO skips have no name: never answered.
  std::vector<std::uint8_t> named_;
  cv::dnn::Net net_;
  std::vector<cv::String> names_;
  cv::Mat tensor_{std::vector<int>{1, 3, kInputPx, kInputPx}, CV_32F};
  std::vector<cv::Mat> outputs_;
};

}  // namespace

std::shared_ptr<const CocoSsdFiles> read_coco_ssd_files(const std::filesystem::path& folder) {
  const std::string stem = kStem;
  return std::make_shared<const CocoSsdFiles>(CocoSsdFiles{folder / (stem + ".onnx"),
                                                           read_anchors(folder / (stem + ".anchors.npy")),
                                                           read_labels(folder / (stem + ".labels.txt"))});
}

std::unique_ptr<Detector> make_coco_ssd(std::shared_ptr<const CocoSsdFiles> files) {
  // There is a worker for each core already.
  cv::setNumThreads(1);
  const std::string model = files->model.string();
  try {
    return std::make_unique<CocoSsd>(std::move(files));
  } catch (const cv::Exception& error) {
    throw DetectorError(model + ": does not load: " + error.err);
  }
}

}  // namespace reference
