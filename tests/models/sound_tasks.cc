#include "sound_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sound.h"
#include "tools/files/tensor_file.h"

namespace tessera::cases {
namespace {

using Findings = Result<std::vector<Finding>>;

Tensor from_reals(const Shape& dims, const std::vector<double>& values) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  std::transform(values.begin(), values.end(), tensor.as<float>().begin(),
                 [](double value) { return static_cast<float>(value); });
  return tensor;
}

// The first inputs of the model in zeros, as its cases have them.
std::vector<Tensor> zero_inputs(const CaseOutcome& outcome) {
  std::vector<Tensor> inputs;
  for (const Tensor& input : outcome.inputs) {
    inputs.push_back(Tensor::zeros(input.format, input.dims));
  }
  return inputs;
}

// "stream FILE: chunks of 512 with 64 samples of left context, state carried"
Findings voice_stream(const TaskContext& context, const SeriesRow& row) {
  char file[256] = {};
  std::size_t chunk = 0, before = 0;
  if (std::sscanf(row.how.c_str(), "stream %255[^:]: chunks of %zu with %zu samples", file, &chunk,
                  &before) != 3) {
    return Error{ErrorCode::kInvalidArgument, "CASES.tsv: '" + row.how + "' is not understood"};
  }
  TESSERA_TRY(const std::vector<double> samples, read_wav(context.folder + "/" + file));
  TESSERA_TRY(const Tensor stored, tools::read_npy(context.folder + "/" + row.file));
  const std::vector<double> expected = values_of(stored);
  const std::size_t count = std::min(expected.size(), context.series_max);
  std::vector<Tensor> inputs = zero_inputs(context.outcomes[0]);
  inputs[2] = context.outcomes[0].inputs[2];  // the sampling rate
  std::size_t voiced = 0, stored_voiced = 0;
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> window(before + chunk);
    for (std::size_t k = 0; k < window.size(); ++k) {
      const std::size_t at = i * chunk + k;  // in a recording with `before` zeros in front
      window[k] = at < before || at - before >= samples.size() ? 0 : samples[at - before];
    }
    inputs[0] = from_reals(inputs[0].dims, window);
    TESSERA_TRY(const auto outputs, context.runner.run(context.model.name, inputs));
    inputs[1] = outputs[1];
    const double found = values_of(outputs[0])[0];
    worst = std::max(worst, std::abs(found - expected[i]));
    voiced += found > 0.5 ? 1 : 0;
    stored_voiced += expected[i] > 0.5 ? 1 : 0;
  }
  Finding finding{fmt::format("voiced of {} chunks", count), std::to_string(stored_voiced),
                  std::to_string(voiced), true, ""};
  finding.detail = fmt::format("probabilities differ by at most {:.2g}", worst);
  // 1e-3 of a probability after as many steps; a narrower format may move a chunk at the threshold.
  finding.ok = context.exact
                   ? worst <= 1e-3 && voiced == stored_voiced
                   : worst <= 0.1 && voiced + 3 >= stored_voiced && stored_voiced + 3 >= voiced;
  return std::vector{finding};
}

// Reflected at both ends by `edge` samples.
std::vector<double> reflected(const std::vector<double>& samples, std::size_t edge) {
  std::vector<double> padded;
  for (std::size_t i = edge; i > 0; --i) padded.push_back(samples[i]);
  padded.insert(padded.end(), samples.begin(), samples.end());
  for (std::size_t i = 0; i < edge; ++i) padded.push_back(samples[samples.size() - 2 - i]);
  return padded;
}

// Frames of 512 every 256 under the root of a Hann window; the state in inputs and outputs 1 to 3.
Findings enhance_stream(const TaskContext& context) {
  constexpr std::size_t kFrame = 512, kHop = 256;
  const std::string audio = context.folder + "/inputs/audio/";
  TESSERA_TRY(const std::vector<double> noisy, read_wav(audio + "gtcrn_mix_16k.wav"));
  TESSERA_TRY(std::vector<double> reference, read_wav(audio + "gtcrn_enh_stream_ref.wav"));
  const std::vector<double> padded = reflected(noisy, kFrame / 2);
  const std::size_t frames = std::min(1 + noisy.size() / kHop, context.series_max);
  const RealTransform transform(kFrame);
  const std::vector<double> window = root_hann(kFrame);
  std::vector<double> sum(kHop * frames + kFrame), weight(sum.size());
  std::vector<Tensor> inputs = zero_inputs(context.outcomes[0]);
  for (std::size_t f = 0; f < frames; ++f) {
    std::vector<double> frame(kFrame);
    for (std::size_t i = 0; i < kFrame; ++i) frame[i] = padded[f * kHop + i] * window[i];
    std::vector<double> parts;
    for (const auto& bin : transform.forward(frame.data())) {
      parts.push_back(bin.real());
      parts.push_back(bin.imag());
    }
    inputs[0] = from_reals(inputs[0].dims, parts);
    TESSERA_TRY(auto outputs, context.runner.run(context.model.name, inputs));
    const std::vector<double> enhanced = values_of(outputs[0]);
    Spectrum spectrum;
    for (std::size_t k = 0; k < transform.bins(); ++k) {
      spectrum.emplace_back(enhanced[2 * k], enhanced[2 * k + 1]);
    }
    const std::vector<double> wave = transform.inverse(spectrum);
    for (std::size_t i = 0; i < kFrame; ++i) {
      sum[f * kHop + i] += wave[i] * window[i];
      weight[f * kHop + i] += window[i] * window[i];
    }
    std::move(outputs.begin() + 1, outputs.end(), inputs.begin() + 1);
  }
  // Without the reflected half frame at the begin, and the last half frame that no other covers.
  std::vector<double> result;
  for (std::size_t i = kFrame / 2; i < frames * kHop; ++i) result.push_back(sum[i] / weight[i]);
  const double found = correlation(result, reference);
  // The reference is of 16 bits per sample.
  const double wanted = context.exact ? 0.99999 : 0.999;
  return std::vector{Finding{"corr. with enhanced file", "1.000000", fmt::format("{:.6f}", found),
                             found >= wanted, fmt::format("{} frames", frames)}};
}

// Largest difference as a share of what tolerance 1e-3 + 1e-4 of the range allows.
double excess(const Tensor& found, const Tensor& expected) {
  return error_over_allowed(values_of(found), values_of(expected), 1e-3, 1e-4);
}

// The other half of a stored case of dtln_2 lies where "mix_frame200" says.
const CaseOutcome* outcome_of_frame(const TaskContext& context, std::size_t frame) {
  for (const CaseOutcome& outcome : context.outcomes) {
    if (outcome.one->name == fmt::format("mix_frame{}", frame)) return &outcome;
  }
  return nullptr;
}

// Blocks of 512 every 128: dtln_1 masks the magnitudes, dtln_2 works on the samples.
Findings denoise_stream(const TaskContext& context) {
  constexpr std::size_t kBlock = 512, kHop = 128;
  TESSERA_TRY(const std::vector<double> noisy,
              read_wav(context.folder + "/inputs/audio/gtcrn_mix_16k.wav"));
  const std::size_t blocks = std::min(noisy.size() / kHop, context.series_max);
  const RealTransform transform(kBlock);
  std::vector<double> block(kBlock), sum(blocks * kHop + kBlock);
  Tensor first_state = Tensor::zeros(Format::kF32, context.outcomes[0].inputs[1].dims);
  Tensor second_state = first_state;
  double worst = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    std::copy(block.begin() + kHop, block.end(), block.begin());
    std::copy_n(noisy.begin() + static_cast<std::ptrdiff_t>(b * kHop), kHop, block.end() - kHop);
    Spectrum spectrum = transform.forward(block.data());
    std::vector<double> magnitudes;
    for (const auto& bin : spectrum) magnitudes.push_back(std::abs(bin));
    TESSERA_TRY(const auto mask,
                context.runner.run("dtln_1", {from_reals({1, 1, 257}, magnitudes), first_state}));
    first_state = mask[1];
    const std::vector<double> gains = values_of(mask[0]);
    for (std::size_t k = 0; k < spectrum.size(); ++k) spectrum[k] *= gains[k];
    TESSERA_TRY(
        const auto clean,
        context.runner.run(context.model.name,
                           {from_reals({1, 1, 512}, transform.inverse(spectrum)), second_state}));
    second_state = clean[1];
    const std::vector<double> samples = values_of(clean[0]);
    for (std::size_t i = 0; i < kBlock; ++i) sum[b * kHop + i] += samples[i];
    if (const CaseOutcome* stored = outcome_of_frame(context, b)) {
      worst = std::max(
          {worst, excess(clean[0], stored->expected[0]), excess(clean[1], stored->expected[1])});
    }
  }
  // The newest sample of a block is the newest of the recording: block b begins 384 samples early.
  const std::vector<double> result(sum.begin() + (kBlock - kHop), sum.end());
  const double found = correlation(result, noisy);
  double stored = 0;  // "denoises gtcrn_mix.wav (corr to input 0.78)"
  const std::size_t at = context.model.sanity.find("corr to input ");
  if (at != std::string::npos) stored = std::stod(context.model.sanity.substr(at + 14));
  Finding finding{"corr. with noisy file", fmt::format("{:.2f}", stored),
                  fmt::format("{:.4f}", found), true, ""};
  finding.detail =
      fmt::format("{} blocks; stored blocks within {:.2f} of the tolerance", blocks, worst);
  const bool whole = blocks == noisy.size() / kHop;
  // MODELS.tsv does not say how it aligned the two; the stored blocks are what has to be met.
  finding.ok = (!whole || std::abs(found - stored) < 0.05) && (!context.exact || worst <= 1);
  return std::vector{finding};
}

// Each step takes the state that the step before gave; the stored steps were made so.
Findings step_chain(const TaskContext& context) {
  double worst = 0;
  std::vector<Tensor> state;
  for (const CaseOutcome& outcome : context.outcomes) {
    std::vector<Tensor> inputs = outcome.inputs;
    if (!state.empty()) std::copy(state.begin() + 1, state.end(), inputs.begin() + 1);
    TESSERA_TRY(state, context.runner.run(context.model.name, inputs));
    for (std::size_t i = 0; i < state.size(); ++i) {
      worst = std::max(worst, excess(state[i], outcome.expected[i]));
    }
  }
  const CaseOutcome& last = context.outcomes.back();
  return std::vector{Finding{
      fmt::format("voice after {} steps", context.outcomes.size()),
      fmt::format("{:.4f}", values_of(last.expected[0])[0]),
      fmt::format("{:.4f}", values_of(state[0])[0]),
      context.exact ? worst <= 1
                    : std::abs(values_of(last.expected[0])[0] - values_of(state[0])[0]) < 0.02,
      fmt::format("error / allowed {:.2g}", worst)}};
}

double median_pitch(const std::vector<Tensor>& outputs) {
  const std::vector<double> pitch = values_of(outputs[0]), sure = values_of(outputs[1]);
  std::vector<double> voiced;
  for (std::size_t i = 0; i < pitch.size(); ++i) {
    if (sure[i] > 0.9) voiced.push_back(pitch[i]);
  }
  if (voiced.empty()) return 0;
  std::sort(voiced.begin(), voiced.end());
  return (voiced[(voiced.size() - 1) / 2] + voiced[voiced.size() / 2]) / 2;
}

Findings pitch(const TaskContext& context) {
  std::vector<Finding> findings;
  for (const CaseOutcome& outcome : context.outcomes) {
    const double stored = median_pitch(outcome.expected), found = median_pitch(outcome.found);
    findings.push_back(
        {"median pitch, Hz", fmt::format("{:.1f}", stored), fmt::format("{:.1f}", found),
         std::abs(found - stored) <= 0.001 * stored * (context.exact ? 1 : 10), outcome.one->name});
  }
  return findings;
}

std::size_t count_notes(const Tensor& notes) {
  const std::vector<double> values = values_of(notes);
  return static_cast<std::size_t>(
      std::count_if(values.begin(), values.end(), [](double value) { return value > 0.5; }));
}

Findings notes(const TaskContext& context) {
  std::vector<Finding> findings;
  for (const CaseOutcome& outcome : context.outcomes) {
    const std::size_t stored = count_notes(outcome.expected[0]);
    const std::size_t found = count_notes(outcome.found[0]);
    const std::size_t allowed = context.exact ? 0 : 1 + stored / 50;
    findings.push_back({"note frames above 0.5", std::to_string(stored), std::to_string(found),
                        found + allowed >= stored && stored + allowed >= found, outcome.one->name});
  }
  return findings;
}

struct SoundTask {
  const char* model;  // the beginning of its name
  Findings (*run)(const TaskContext& context);
};
constexpr SoundTask kTasks[] = {{"gtcrn", enhance_stream},
                                {"dtln_2", denoise_stream},
                                {"ten_vad", step_chain},
                                {"swift_f0", pitch},
                                {"basic_pitch", notes}};

}  // namespace

Findings sound_tasks(const TaskContext& context) {
  for (const SeriesRow& row : read_series(context.folder, context.model.name)) {
    if (row.how.starts_with("stream ")) return voice_stream(context, row);
  }
  for (const SoundTask& task : kTasks) {
    if (context.model.name.starts_with(task.model)) return task.run(context);
  }
  return std::vector<Finding>{};
}

}  // namespace tessera::cases
