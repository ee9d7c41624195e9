// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/emulate/graph.hpp"

#include <algorithm>
#include <set>

#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/queue.hpp"

namespace reel::emulate {
namespace {
std::set<cudaGraphExec_t>& executables() {
  static std::set<cudaGraphExec_t> all;
  return all;
}

bool is_ready(const GraphRun& run, std::size_t step) {
  const auto& before = run.body->steps[step].before;
  return !run.done[step] &&
         std::all_of(before.begin(), before.end(), [&](std::size_t at) { return run.done[at]; });
}

cudaError_t instantiate(cudaGraphExec_t* made, cudaGraph_t graph) {
  *made = nullptr;
  if (!graph) return cudaErrorInvalidValue;
  auto body = std::make_shared<GraphBody>();
  std::map<const Node*, std::size_t> places;
  for (const auto& node : graph->nodes) {
    GraphBody::Step step{node->work, {}, node->chain};
    for (const Node* const before : node->before) step.before.push_back(places.at(before));
    places[node.get()] = body->steps.size();
    body->steps.push_back(std::move(step));
  }
  for (std::size_t i = 0; i < graph->chains; ++i) body->lanes.push_back(std::make_unique<Lane>());
  body->blocks = graph->blocks;
  body->device = graph->device;
  *made = new CUgraphExec_st{std::move(body)};
  executables().insert(*made);
  return cudaSuccess;
}

cudaError_t launch(cudaGraphExec_t graph, cudaStream_t handle) {
  const cudaStream_t stream = find_stream(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!executables().count(graph)) return cudaErrorInvalidValue;
  if (stream->capture) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t error = implicit_capture_error(*stream)) return error;
  // Memory that the last launch allocated must be freed before the next launch.
  const auto& blocks = graph->body->blocks;
  if (std::any_of(blocks.begin(), blocks.end(), [](auto* block) { return block->kept; }))
    return cudaErrorInvalidValue;
  for (MemoryBlock* const block : blocks) block->kept = true;
  ++state().counts.graph_launches;
  auto run = std::make_shared<GraphRun>();
  run->body = graph->body;
  run->left = graph->body->steps.size();
  run->done.resize(run->left);
  run->clocks = std::vector<Clock>(run->left);
  Task task;
  if (run->left > 0) task.graph = std::move(run);
  enqueue_task(stream, std::move(task));
  return cudaSuccess;
}
}  // namespace

bool run_node(GraphRun& run, CUstream_st& stream) {
  GraphBody& body = *run.body;
  if (body.running && body.running != &run) return true;
  if (!run.begun) {
    become(stream.lane.identity);
    run.start.release();
    become(emulator_identity());
    run.begun = true;
    body.running = &run;
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < body.steps.size(); ++i)
    if (is_ready(run, i)) ready.push_back(i);
  const std::size_t at = ready[roll(ready.size())];
  const GraphBody::Step& step = body.steps[at];
  Lane& lane = *body.lanes[step.chain];
  become(lane.identity);
  run.start.acquire();
  for (const std::size_t before : step.before) run.clocks[before].acquire();
  become(emulator_identity());
  note_error(stream.device, run_work(step.work, lane, stream.device));
  become(lane.identity);
  run.clocks[at].release();
  become(emulator_identity());
  run.done[at] = true;
  if (--run.left > 0 && state().devices[std::size_t(stream.device)]->sticky == cudaSuccess)
    return true;
  become(stream.lane.identity);
  for (Clock& clock : run.clocks) clock.acquire();
  become(emulator_identity());
  body.running = nullptr;
  return false;
}
}  // namespace reel::emulate

using namespace reel::emulate;

extern "C" {
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return call([=] { return instantiate(made, graph); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                          unsigned long long) {
  return call([=] { return instantiate(made, graph); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return call([=] {
    if (!graph || !count) return cudaErrorInvalidValue;
    if (nodes)
      for (std::size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i)
        nodes[i] = reinterpret_cast<cudaGraphNode_t>(graph->nodes[i].get());
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t) {
  return call([=] { return executables().count(graph) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return call([=] { return launch(graph, stream); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([=] {
    if (!graph) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return call([=] {
    if (!executables().erase(graph)) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}
}
