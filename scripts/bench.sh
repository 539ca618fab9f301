#!/usr/bin/env bash
# Builds and runs the benchmarks: scripts/bench.sh BUILD_FOLDER [FILTER]
#
#   kernels and vector operations    Google Benchmark programs, FILTER chooses among them
#   the three OCR models             every device side by side
#   the service                      under load of wrk, hey, h2load and a client of npm
#   host against ONNX Runtime        both in one run; needs node and npm
#   text and speech                  pictures and recordings to lines and segments, likewise
#
# Speed depends on the machine and on what else it does: compare ratios of one run only.
# TESSERA_BENCH_MODELS_ONLY=1 leaves the first part out.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)

if [ "${TESSERA_BENCH_MODELS_ONLY:-0}" != 1 ]; then
  cmake --build "$build" --target tessera_benchmarks --parallel
  found=0
  for program in "$build"/bench/*_bench; do
    [ -x "$program" ] || continue
    found=1
    "$program" --benchmark_filter="${2:-.}"
  done
  [ "$found" -eq 1 ] || {
    echo "there is no benchmark in $build/bench" >&2
    exit 1
  }
fi

cmake --build "$build" --target tessera_tool host_vs_ort reading_vs_ort --parallel
models=$("$root/scripts/fetch_ocr_models.sh")
tessera=$build/src/tools/tessera
bench_model() {  # name, file, shape
  printf '\n%s %s\n' "$1" "$3"
  "$tessera" bench "$models/$2" --shape "x=$3" --suite devices --threads 2 --repeat 3
}
bench_model detection ch_PP-OCRv4_det_infer.onnx 1x3x640x640
bench_model recognition ch_PP-OCRv4_rec_infer.onnx 1x3x48x320
bench_model direction ch_ppocr_mobile_v2.0_cls_infer.onnx 1x3x48x192

printf '\nthe service under load\n'
/usr/bin/python3 -B "$root/bench/serve/serve_bench.py" "$tessera"

printf '\nhost against ONNX Runtime\n'
if command -v node >/dev/null && command -v npm >/dev/null; then
  "$tessera" bench --suite host-vs-ort --ocr-models "$models" \
    --onnxruntime "$("$root/scripts/fetch_onnxruntime.sh")" --threads 2
  printf '\ntext and speech, from files to results, against ONNX Runtime\n'
  # 48 pictures that differ, with what the tests draw them by.
  pictures=$(mktemp -d)
  trap 'rm -rf "$pictures"' EXIT
  /usr/bin/python3 "$root/tests/ocr/make_pictures.py" "$pictures"
  "$build/bench/reading_vs_ort" --pictures "$pictures" --ocr-models "$models" \
    --vad-model "$("$root/scripts/fetch_vad_model.sh")" \
    --onnxruntime "$("$root/scripts/fetch_onnxruntime.sh")" --threads 2
else
  echo "not run: it needs node and npm, which are not in PATH" >&2
  exit 1
fi
