// SPDX-License-Identifier: BSD-3-Clause
#include "lib/dispatch/recording.hpp"

namespace reel {
namespace {
Body* keep(Body* body) {
  retain(body);
  return body;
}
}  // namespace

Record& leave_record(Context& context, const Op& op, OptionsView options, Caller site,
                     Body* const* inputs, const Origin* origins, int input_count,
                     Body* const* outputs, int output_count, std::uint64_t tapes) {
  Reel& reel = context.reel;
  const std::uint32_t number = reel.size();
  Record& record = reel.append(op, input_count, output_count, options);
  record.file = site.file;
  record.line = site.line;
  record.tapes = tapes;
  const unsigned needs = needs_of(op, origins, input_count);
  if (needs) record.saves = true;
  const Shape* last_shape = nullptr;
  const auto shape_of = [&](const Body& body) {
    if (!last_shape || !(*last_shape == body.shape))
      last_shape = new (reel.arena().take(sizeof(Shape))) Shape(body.shape);
    return last_shape;
  };
  for (int i = 0; i < input_count; ++i) {
    if (origins[i].shape) last_shape = origins[i].shape;
    set_input(reel, record.inputs[i], origins[i], inputs[i], shape_of(*inputs[i]), tapes,
              needs >> (i < 7 ? i : 7) & 1);
  }
  for (int i = 0; i < output_count; ++i) {
    Body& body = *outputs[i];
    record.outputs[i] = {shape_of(body), nullptr, body.dtype};
    if (needs >> (8 + (i < 7 ? i : 7)) & 1) record.outputs[i].saved = keep(&body);
    body.id = {reel.uid(), number, static_cast<std::uint32_t>(i)};
  }
  return record;
}
}  // namespace reel
