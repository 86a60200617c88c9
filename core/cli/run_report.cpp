// SPDX-License-Identifier: Apache-2.0
//
// Both faces say the same: whatever was made up (inputs, sizes) is told in each.
#include "core/cli/run_report.hpp"

#include <fmt/ranges.h>

#include "core/base/dtype.hpp"
#include "core/cli/json.hpp"
#include "core/cli/text.hpp"

namespace bp::cli {
namespace {

std::string digits(const Number& number) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, number);
}

void write_number(std::string_view name, const Number& number, JsonWriter* out_json) {
  std::visit([&](auto value) { out_json->field(name, value); }, number);
}

std::string dims_text(const RunReport& report) {
  std::string text;
  for (const DimSource& dim : report.dims) {
    text += fmt::format("  dimension {} is {} ({})\n", visible(dim.name), dim.size,
                        visible(dim.source));
  }
  return text;
}

std::string inputs_text(const RunReport& report) {
  Table table({"input", "dtype", "shape", "from"});
  for (const NamedArray& input : report.inputs) {
    table.add({input.name, std::string(dtype_name(input.tensor.dtype)),
               shape_text(input.tensor.sizes), input.source});
  }
  return table.empty() ? "" : table.to_string() + "\n";
}

std::string outputs_text(const RunReport& report) {
  Table table({"output", "dtype", "shape", "min", "max", "mean", "NaN", "values"}, {3, 4, 5, 6});
  std::string written;
  for (const OutputReport& output : report.outputs) {
    const Summary summary = summarise(output.tensor);
    const auto cell = [&](const Number& number) {
      const auto* real = std::get_if<double>(&number);
      return !summary.has_values ? "-" : real != nullptr ? number_text(*real) : digits(number);
    };
    table.add({output.name, std::string(dtype_name(output.tensor.dtype)),
               shape_text(output.tensor.sizes), cell(summary.min), cell(summary.max),
               cell(summary.mean), std::to_string(summary.nan_count), summary.first});
    if (!output.file.empty()) {
      written += "  wrote " + visible(output.file) + "\n";
    }
  }
  return table.to_string() + written + "\n";
}

std::string latency_text(const Latency& latency) {
  if (latency.run_count == 1) {
    return fmt::format("  latency    {}, one run, host to host, with planning\n",
                       duration_text(latency.first_ns));
  }
  return fmt::format(
      "  latency    min {}, median {} over {}, host to host (the first, with "
      "planning: {})\n",
      duration_text(latency.min_ns), duration_text(latency.median_ns),
      count_text(latency.run_count - 1, "run"), duration_text(latency.first_ns));
}

std::string placements_text(const RunReport& report) {
  Table table({"node", "operator", "runs", "why not native", "kernels"});
  for (const PlacementRow& row : report.placements) {
    table.add({row.node, row.op, std::string(route_name(row.kind)), row.reason,
               fmt::format("{}", fmt::join(row.kernels, ", "))});
  }
  return "\n" + table.to_string();
}

void write_sizes(const Dims& sizes, JsonWriter* out_json) {
  out_json->key("shape").begin_array();
  for (const int64_t size : sizes) out_json->value(size);
  out_json->end_array();
}

void write_inputs(const RunReport& report, JsonWriter* out_json) {
  out_json->key("dims").begin_array();
  for (const DimSource& dim : report.dims) {
    out_json->begin_object()
        .field("name", dim.name)
        .field("size", dim.size)
        .field("source", dim.source)
        .end_object();
  }
  out_json->end_array().key("inputs").begin_array();
  for (const NamedArray& input : report.inputs) {
    out_json->begin_object()
        .field("name", input.name)
        .field("dtype", dtype_name(input.tensor.dtype));
    write_sizes(input.tensor.sizes, out_json);
    out_json->field("source", input.source).end_object();
  }
  out_json->end_array();
}

void write_outputs(const RunReport& report, JsonWriter* out_json) {
  out_json->key("outputs").begin_array();
  for (const OutputReport& output : report.outputs) {
    const Summary summary = summarise(output.tensor);
    out_json->begin_object()
        .field("name", output.name)
        .field("dtype", dtype_name(output.tensor.dtype));
    write_sizes(output.tensor.sizes, out_json);
    if (summary.has_values) {
      write_number("min", summary.min, out_json);
      write_number("max", summary.max, out_json);
      out_json->field("mean", summary.mean);
    }
    out_json->field("nan_count", summary.nan_count);
    if (!output.file.empty()) out_json->field("file", output.file);
    out_json->end_object();
  }
  out_json->end_array();
}

void write_checks(const RunReport& report, JsonWriter* out_json) {
  out_json->key("checks").begin_array();
  for (const CheckReport& check : report.checks) {
    const Comparison& comparison = check.comparison;
    out_json->begin_object()
        .field("name", check.name)
        .field("file", check.file)
        .field("passed", comparison.passed)
        .field("value_count", comparison.value_count)
        .field("mismatch_count", comparison.mismatch_count)
        .field("words", comparison.words);
    if (comparison.mismatch_count > 0) {
      out_json->field("index", comparison.index);
      write_number("found", comparison.found, out_json);
      write_number("expected", comparison.expected, out_json);
    }
    out_json->end_object();
  }
  out_json->end_array();
}

void write_placement(const RunArgs& args, const RunReport& report, JsonWriter* out_json) {
  out_json->key("placement")
      .begin_object()
      .field("native", report.counts.native)
      .field("decomposed", report.counts.decomposed)
      .field("fallback", report.counts.fallback)
      .field("view", report.counts.view)
      .field("known", report.counts.known)
      .end_object();
  out_json->key("memory")
      .begin_object()
      .field("arena_bytes", report.memory.arena_bytes)
      .field("live_bytes_peak", report.memory.live_bytes_peak)
      .end_object();
  if (!args.placement) return;
  out_json->key("nodes").begin_array();
  for (const PlacementRow& row : report.placements) {
    out_json->begin_object()
        .field("node", row.node)
        .field("operator", row.op)
        .field("placement", route_name(row.kind))
        .field("reason", row.reason)
        .key("kernels")
        .begin_array();
    for (const std::string& kernel : row.kernels) out_json->value(kernel);
    out_json->end_array().end_object();
  }
  out_json->end_array();
}

}  // namespace

std::string report_text(const RunArgs& args, const RunReport& report) {
  std::string text = fmt::format("{} on {}\n\n", visible(args.model), visible(report.device));
  const std::string dims = dims_text(report);
  text += inputs_text(report) + dims + (dims.empty() ? "" : "\n") + outputs_text(report);
  text += latency_text(report.latency);
  text += fmt::format("  operators  {} native, {} decomposed, {} fallback, {} view, {} known\n",
                      report.counts.native, report.counts.decomposed, report.counts.fallback,
                      report.counts.view, report.counts.known);
  text +=
      fmt::format("  memory     {} between operators; {} live at once\n",
                  bytes_text(report.memory.arena_bytes), bytes_text(report.memory.live_bytes_peak));
  for (const CheckReport& check : report.checks) {
    text += fmt::format("  expect     {} {}: {}\n", visible(check.name),
                        check.comparison.passed ? "ok" : "WRONG", check.comparison.words);
  }
  return args.placement ? text + placements_text(report) : text;
}

std::string report_json(const RunArgs& args, const RunReport& report) {
  JsonWriter json;
  json.begin_object().field("model", args.model).field("device", report.device);
  json.field("seed", args.seed);
  write_inputs(report, &json);
  write_outputs(report, &json);
  write_checks(report, &json);
  json.key("latency")
      .begin_object()
      .field("first_ns", report.latency.first_ns)
      .field("min_ns", report.latency.min_ns)
      .field("median_ns", report.latency.median_ns)
      .field("run_count", report.latency.run_count)
      .end_object();
  write_placement(args, report, &json);
  return json.end_object().take();
}

}  // namespace bp::cli
