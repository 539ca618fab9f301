// The `tessera` command: one subcommand a verb, from the table below.
#include "tools/command_line.h"

namespace tessera::tools {
namespace {

constexpr Verb kVerbs[] = {
    {"run", "compile, link and run a model",
     "tessera run model.onnx --input x=photo.png --device sim --trace run.json", run_verb},
    {"compile", "compile a model into a package", "tessera compile model.onnx -o model.tpkg",
     compile_verb},
    {"link", "link a package into a program", "tessera link model.tpkg -o model.tprog", link_verb},
    {"inspect", "describe a package, program or model", "tessera inspect model.tpkg", inspect_verb},
    {"asm", "assemble firmware text into a program", "tessera asm lstm.tasm -o lstm.tprog",
     asm_verb},
    {"disasm", "a program as text that assembles back", "tessera disasm model.tprog -o model.tasm",
     disasm_verb},
    {"derive", "a program as software that gives the same bits",
     "tessera derive model.tprog --to onnx -o model_derived.onnx --verify 4", derive_verb},
    {"compare", "compare two devices layer by layer, bit by bit",
     "tessera compare model.onnx --a sim --b host", compare_verb},
    {"conform", "run the ONNX backend tests below a folder",
     "tessera conform tests/node --arch f32", conform_verb},
    {"report", "a table of the layers' cycles, and an HTML report",
     "tessera report model.onnx --html report.html", report_verb},
    {"bench", "throughput, latency and the simulator's speed", "tessera bench model.onnx",
     bench_verb},
    {"card", "tenants on one card: who has what, cycles alone and together",
     "tessera card --tenant a.onnx:cores=4 --tenant b.onnx:cores=2,weight=2", card_verb},
    {"serve", "answer inference requests for a folder of models",
     "tessera serve --model-repository models --http-port 8000", serve_verb},
    {"cluster", "a cluster to try, and what there is in one", "tessera cluster try --nodes 4",
     cluster_verb},
    {"master", "decide which node of a cluster has what",
     "tessera master --store etcd:127.0.0.1:2379", master_verb},
    {"node", "offer the cards of this machine to a cluster",
     "tessera node --store etcd:127.0.0.1:2379 --id n1 --cards 2", node_verb},
    {"sweep", "the cycles of a model on many processors",
     "tessera sweep model.onnx --vary neural.count=1,2,4 --vary neural.rows=64,128", sweep_verb},
    {"watch", "run a model again and again behind a live page",
     "tessera watch model.onnx --http 8080 --device sim --pace 1", watch_verb},
    {"top", "live figures of a running pipeline", "tessera top http://127.0.0.1:8080", top_verb},
    {"trace", "the events of a long run as a trace", "tessera trace run.jsonl -o run.json",
     trace_verb},
    {"zoo", "write a well-known network with made-up weights",
     "tessera zoo resnet50 --seed 1 -o resnet50.onnx", zoo_verb},
    {"repro", "published experiments again, beside the published figures",
     "tessera repro timing --data published", repro_verb},
    {"doctor", "check this installation", "tessera doctor", doctor_verb},
    {"manual", "write manual pages and shell completion", "tessera manual share", manual_verb,
     false},
};

}  // namespace
}  // namespace tessera::tools

int main(int argc, char** argv) {
  return tessera::tools::run_command_line(tessera::tools::kVerbs, argc, argv);
}
