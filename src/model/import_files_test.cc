// What depends on files: reading them, and data that lies beside the model.
#include <gtest/gtest.h>
#include <onnx/onnx-data_pb.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "model/import.h"
#include "model/testing/model_builder.h"

namespace tessera::model {
namespace {

namespace fs = std::filesystem;
using testing::ModelBuilder;

// A folder for one test, removed afterwards; beside it lies a file that no model may read.
class ImportFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "import-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directory(root_ / "model");
    write(root_ / "secret.bin", "secret!!");
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path folder() const { return root_ / "model"; }
  const fs::path& root() const { return root_; }

  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  // Writes a model whose initializer 'w' (f32, 2 elements) has the given external data.
  fs::path write_model(const std::map<std::string, std::string>& data) const {
    ModelBuilder builder;
    builder.input("x", Format::kF32, {2}).node("Add", {"x", "w"}, {"y"}).output("y");
    onnx::TensorProto& tensor = *builder.graph().add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : data) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    const fs::path path = folder() / "m.onnx";
    write(path, builder.bytes());
    return path;
  }

  // The importer's words about w's data.
  std::string words(const std::map<std::string, std::string>& data,
                    const ImportLimits& limits = {}) const {
    const fs::path path = write_model(data);
    const Result<Model> model = import_file(path.string(), limits);
    if (model.ok()) return "(no error)";
    const std::string prefix =
        "importing '" + path.string() + "': initializer 'w': external data: ";
    const std::string message = model.error().to_string();
    EXPECT_TRUE(message.starts_with(prefix)) << message;
    return message.substr(std::min(prefix.size(), message.size()));
  }

 private:
  fs::path root_;
};

std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

TEST_F(ImportFiles, ExternalDataIsReadFromItsOffset) {
  write(folder() / "w.bin", "skip" + floats({1.5F, 2.5F}) + "rest");
  const fs::path path = write_model(
      {{"location", "w.bin"}, {"offset", "4"}, {"length", "8"}, {"checksum", "not looked at"}});
  const Result<Model> model = import_file(path.string());
  ASSERT_TRUE(model.ok()) << model.error().to_string();
  const auto values = model->graph.initializers.at("w").as<float>();
  EXPECT_EQ(values[0], 1.5F);
  EXPECT_EQ(values[1], 2.5F);
  EXPECT_EQ(model->path, path.string());
}

TEST_F(ImportFiles, ExternalDataMayLieInAFolderBelowAndBehindALinkThatStaysInside) {
  fs::create_directory(folder() / "data");
  write(folder() / "data" / "w.bin", floats({1, 2}));
  fs::create_symlink("data/w.bin", folder() / "link.bin");
  EXPECT_EQ(words({{"location", "data/w.bin"}}), "(no error)");
  EXPECT_EQ(words({{"location", "./link.bin"}}), "(no error)");
}

TEST_F(ImportFiles, ExternalDataMayNotLeaveTheModelsFolder) {
  EXPECT_EQ(words({{"location", "../secret.bin"}}),
            "'../secret.bin': it contains '..', allowed is a path inside the model's folder   "
            "[invalid model]");
  const std::string absolute = (root() / "secret.bin").string();
  EXPECT_EQ(words({{"location", absolute}}),
            "'" + absolute +
                "': it is an absolute path, allowed is one inside the model's folder   "
                "[invalid model]");
  fs::create_symlink(root() / "secret.bin", folder() / "file.bin");
  EXPECT_EQ(words({{"location", "file.bin"}}),
            "'file.bin': it is a link that leaves the model's folder   [invalid model]");
  fs::create_directory_symlink(root(), folder() / "up");
  EXPECT_EQ(words({{"location", "up/secret.bin"}}),
            "'up/secret.bin': it is a link that leaves the model's folder   [invalid model]");
}

TEST_F(ImportFiles, ExternalDataNames) {
  EXPECT_EQ(words({}), "no file is named ('location')   [invalid model]");
  EXPECT_EQ(words({{"location", std::string("a\0b", 3)}}),
            "'a\\x00b': the name holds a zero byte   [invalid model]");
  EXPECT_EQ(words({{"location", "none.bin"}}),
            "'none.bin': No such file or directory   [invalid model]");
  EXPECT_EQ(words({{"location", "."}}),
            "'.': it is a folder, allowed is a regular file   [invalid model]");
  ASSERT_EQ(::mkfifo((folder() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(words({{"location", "pipe"}}),
            "'pipe': it is a pipe, allowed is a regular file   [invalid model]");
  EXPECT_EQ(words({{"location", "w.bin"}, {"color", "red"}}),
            "the key 'color' is not known   [invalid model]");
}

TEST_F(ImportFiles, ExternalDataSizesAreComparedWithTheFile) {
  write(folder() / "w.bin", floats({1, 2}));
  EXPECT_EQ(words({{"location", "w.bin"}, {"offset", "1"}}),
            "8 bytes from offset 1 asked for, 'w.bin' has 8 bytes   [invalid model]");
  EXPECT_EQ(words({{"location", "w.bin"}, {"offset", "9223372036854775807"}}),
            "8 bytes from offset 9223372036854775807 asked for, 'w.bin' has 8 bytes   "
            "[invalid model]");
  EXPECT_EQ(words({{"location", "w.bin"}, {"length", "4"}}),
            "'length' is 4, the shape asks for 8 bytes   [invalid model]");
  EXPECT_EQ(words({{"location", "w.bin"}, {"offset", "-4"}}),
            "'offset' is '-4', allowed is a whole number of bytes   [invalid model]");
  EXPECT_EQ(words({{"location", "w.bin"}, {"length", "8 bytes"}}),
            "'length' is '8 bytes', allowed is a whole number of bytes   [invalid model]");
  EXPECT_EQ(words({{"location", "w.bin"}}, {.external_bytes_max = 7}),
            "more than 7 bytes altogether   [invalid model]");
}

TEST_F(ImportFiles, ModelFromMemoryHasNoExternalData) {
  std::ifstream file(write_model({{"location", "w.bin"}}), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const Result<Model> model = import_bytes(std::as_bytes(std::span(bytes)), "memory");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(
      model.error().to_string(),
      "importing 'memory': initializer 'w': external data: 'w.bin' cannot be read, because "
      "the model did not come from a folder; give one (LoadOptions::folder)   [invalid model]");
}

TEST_F(ImportFiles, FileThatCannotBeRead) {
  const auto message = [](const fs::path& path) {
    return import_file(path.string()).error().to_string();
  };
  const std::string path = (folder() / "none.onnx").string();
  EXPECT_EQ(message(path), "importing '" + path +
                               "': cannot read the file: No such file or directory   "
                               "[invalid argument]");
  EXPECT_EQ(message(folder()),
            "importing '" + folder().string() +
                "': cannot read the file: it is a folder, allowed is a regular file   "
                "[invalid argument]");
  const fs::path pipe = folder() / "pipe.onnx";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message(pipe), "importing '" + pipe.string() +
                               "': cannot read the file: it is a pipe, allowed is a regular file   "
                               "[invalid argument]");
}

TEST_F(ImportFiles, TruncatedFileIsExplainedFromTheFileToo) {
  const fs::path path = write_model({});
  fs::resize_file(path, fs::file_size(path) - 10);
  EXPECT_EQ(import_file(path.string()).error().to_string(),
            "importing '" + path.string() +
                "': the file is cut off or damaged: field 'graph' at byte 2 says it has 55 bytes, "
                "49 are left   [invalid model]");
}

TEST_F(ImportFiles, LimitOnTheFile) {
  const fs::path path = write_model({});
  const auto size = static_cast<std::int64_t>(fs::file_size(path));
  EXPECT_EQ(import_file(path.string(), {.file_bytes_max = size - 1}).error().code,
            ErrorCode::kInvalidModel);
}

TEST_F(ImportFiles, TensorFile) {
  Tensor tensor = Tensor::zeros(Format::kI64, {3});
  tensor.as<std::int64_t>()[1] = 7;
  const fs::path path = folder() / "input_0.pb";
  write(path, testing::tensor_proto("t", tensor).SerializeAsString());
  const Result<Tensor> imported = import_tensor_file(path.string());
  ASSERT_TRUE(imported.ok()) << imported.error().to_string();
  EXPECT_EQ(*imported, tensor);
}

TEST_F(ImportFiles, FilesOfSequencesAndOptionals) {
  const fs::path path = folder() / "input_0.pb";
  const Tensor a = Tensor::zeros(Format::kI64, {3}), b = Tensor::zeros(Format::kI64, {1});
  onnx::SequenceProto sequence;
  sequence.set_elem_type(onnx::SequenceProto::TENSOR);
  for (const Tensor& tensor : {a, b}) {
    *sequence.add_tensor_values() = testing::tensor_proto("t", tensor);
  }
  write(path, sequence.SerializeAsString());
  auto found = import_value_file(path.string(), ValueKind::kSequence);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(*found, (std::vector<Tensor>{a, b}));

  onnx::OptionalProto optional;
  optional.set_elem_type(onnx::OptionalProto::TENSOR);
  write(path, optional.SerializeAsString());
  found = import_value_file(path.string(), ValueKind::kOptional);
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_TRUE(found->empty());

  sequence.set_elem_type(onnx::SequenceProto::MAP);
  write(path, sequence.SerializeAsString());
  EXPECT_EQ(import_value_file(path.string(), ValueKind::kSequence).error().to_string(),
            "importing '" + path.string() +
                "': a sequence of other values than tensors is not supported   [unsupported]");
}

TEST_F(ImportFiles, TensorFileThatIsNone) {
  const fs::path path = folder() / "input_0.pb";
  const auto message = [&] { return import_tensor_file(path.string()).error().to_string(); };
  const std::string at = "importing '" + path.string() + "': ";
  write(path, "");
  EXPECT_EQ(message(), at + "the file is empty   [invalid model]");
  write(path, "hello");
  EXPECT_EQ(message(), at + "the file is text, not an ONNX model   [invalid model]");
  onnx::TensorProto segments;
  segments.set_data_type(onnx::TensorProto::FLOAT);
  segments.mutable_segment()->set_begin(0);
  write(path, segments.SerializeAsString());
  EXPECT_EQ(message(), at + "the file holds a sequence of tensors or a tensor in segments, which "
                            "are not supported   [unsupported]");
}

}  // namespace
}  // namespace tessera::model
