# SPDX-License-Identifier: Apache-2.0
"""Makes the test sources that cover every exported function: generate_cases.py HEADERS KIND OUT.

KIND bad_input: a case per function, argument and way to get it wrong, a case per function with
valid arguments, each as a C++ function that bad_input_test.cpp runs.
KIND addresses: a C11 file that
takes the address of every function. A function or argument without a rule here is an error.
"""

import pathlib
import sys

import api_headers

HANDLES = {"bpa_runtime": "runtime", "bpa_device": "device", "bpa_tensor": "tensor",
           "bpa_session": "session", "bpa_cancel": "cancel", "bpa_stream": "stream",
           "bpa_ccl_store": "store", "bpa_ccl_group": "group", "bpa_ccl_work": "work",
           "bpa_ccl_mesh": "mesh", "bpa_ccl_data_parallel": "parallel",
           "bpa_ccl_job": "job"}

# Valid values by parameter name; (function, parameter) is looked up first.
VALID = {
    "runtime": "f.runtime", "device": "f.device", "tensor": "f.tensor", "session": "f.session",
    "cancel": "f.cancel", "stream": "f.stream", "status": "BP_OK",
    "sink": "nullptr", "user": "nullptr", "level": "2u",
    "index": "0", "name": "f.device_name", "path": "f.model_path", "dtype": "BP_DTYPE_F32",
    "sizes": "f.sizes", "rank": "2u", "data": "f.values", "bytes": "sizeof(f.values)",
    "out_data": "f.values", "op_id": "BP_OP_RELU", "inputs": "f.inputs", "input_count": "1u",
    "attributes": "nullptr", "flags": "0", "output_count": "1u", "input_names": "f.input_names",
    "callback": "Fixture::on_run_end", "deleter": "nullptr",
    ("bpa_session_create", "data"): "f.model.data()",
    ("bpa_session_create", "bytes"): "f.model.size()",
    ("bpa_runtime_close", "runtime"): "f.spare_runtime",
    ("bpa_runtime_release", "runtime"): "f.spare_runtime",
    ("bpa_session_release", "session"): "f.spare_session",
    ("bpa_cancel_release", "cancel"): "f.spare_cancel",
    ("bpa_cancel_request", "cancel"): "f.spare_cancel",
    ("bpa_tensor_release", "tensor"): "f.spare_tensor",
    ("bpa_tensor_retain", "tensor"): "f.retained_tensor()",
    ("bpa_op_call", "inputs"): "f.op_inputs",
    ("bpa_op_call_on", "inputs"): "f.op_inputs",
    ("bpa_stream_release", "stream"): "f.spare_stream",
    ("bpa_session_run_async", "user"): "&f",
    ("bpa_tensor_view", "strides"): "f.view_strides", "offset": "0",
    "target": "f.tensor", "source": "f.tensor",
    "kind": "f.queue_kind.c_str()", "handle": "f.queue", "access": "BPA_ACCESS_READ_BIT",
    ("bpa_stream_wrap", "device"): "f.queue_device",
    ("bpa_stream_native_handle", "stream"): "f.queue_stream",
    "store": "f.store", "group": "f.group", "work": "f.work", "words": '"enough"',
    "send": "f.tensor", "recv": "f.recv_tensor", "reduction": "BPA_CCL_SUM", "root": "0u",
    "peer": "0u", "call_count": "1u", "stride_bytes": "sizeof(bpa_ccl_call)", "timeout_ns": "0u",
    "counts": "f.counts", "send_counts": "f.counts", "recv_counts": "f.counts",
    ("bpa_ccl_recv", "tensor"): "f.recv_tensor",
    ("bpa_ccl_store_release", "store"): "f.take_store()",
    ("bpa_ccl_group_release", "group"): "f.take_group()",
    ("bpa_ccl_work_release", "work"): "f.take_work()",
    ("bpa_ccl_group_abort", "group"): "f.doomed_group",
    ("bpa_ccl_group_get_trace", "out_text"): "f.text.data()",
    ("bpa_ccl_group_get_trace", "bytes"): "f.text.size()",
    "mesh": "f.mesh", "parallel": "f.parallel", "axis": '"x"', "placements": "f.rows",
    "placement_count": "1u", "out_sizes": "f.out_sizes", "out_offsets": "f.out_offsets",
    "tensors": "f.targets", "tensor_count": "1u", "gradient": "f.tensor",
    ("bpa_ccl_mesh_release", "mesh"): "f.take_mesh()",
    ("bpa_ccl_data_parallel_release", "parallel"): "f.take_parallel()",
    ("bpa_ccl_store_create_file", "path"): "f.store_path()",
    ("bpa_ccl_store_create_file", "job"): '"job/1"', "job": "f.job",
    ("bpa_ccl_job_release", "job"): "f.take_job()",
}
# What a valid call needs to end.
PREPARED = {"bpa_ccl_send": "f.expect_message();", "bpa_ccl_recv": "f.send_message();",
            "bpa_ccl_data_parallel_accumulate": "f.begin_step();",
            "bpa_ccl_data_parallel_ready": "f.begin_step();",
            "bpa_ccl_data_parallel_finish": "f.begin_step();"}
# Valid struct arguments: what fills the struct.
STRUCTS = {
    "bpa_runtime_args": "f.runtime_args()", "bpa_wrap_args": "f.wrap_args()",
    "bpa_session_args": "f.session_args()", "bpa_run_args": "f.run_args()",
    "bpa_ccl_group_args": "f.group_args()", "bpa_ccl_options": "f.ccl_options()",
    "bpa_ccl_call": "f.ccl_call()", "bpa_ccl_rebuild_args": "f.rebuild_args()",
    "bpa_ccl_split_args": "f.split_args()",
    "bpa_ccl_mesh_args": "f.mesh_args()", "bpa_ccl_redistribute_args": "f.redistribute_args()",
    "bpa_ccl_data_parallel_args": "f.parallel_args()",
    "bpa_ccl_tcp_store_args": "f.tcp_store_args()",
}
# Where NULL is a legal value of a pointer.
NULL_IS_LEGAL = {
    "sink", "user", "attributes", "plugin_path", "install_dir", "strides", "deleter",
    ("bpa_op_call", "runtime"), ("bpa_runtime_create", "args"), ("bpa_tensor_from_host", "device"),
    ("bpa_tensor_wrap", "device"), ("bpa_run_args", "cancel"), ("bpa_run_args", "stream"),
    ("bpa_tensor_assign", "stream"), ("bpa_session_args", "dim_names"),
    ("bpa_session_args", "dim_sizes"), ("bpa_session_args", "devices"),
    ("bpa_session_args", "range_names"), ("bpa_session_args", "range_mins"),
    ("bpa_session_args", "range_maxes"),
    ("bpa_run_args", "bound_outputs"), ("bpa_runtime_release", "runtime"),
    ("bpa_session_release", "session"), ("bpa_cancel_release", "cancel"),
    ("bpa_tensor_release", "tensor"), ("bpa_tensor_retain", "tensor"),
    ("bpa_stream_release", "stream"),
    "options", "out_work", "words", ("bpa_ccl_group_args", "name"), ("bpa_ccl_options", "stream"),
    ("bpa_ccl_call", "send"), ("bpa_ccl_call", "recv"), ("bpa_ccl_broadcast", "send"),
    ("bpa_ccl_scatter", "send"), ("bpa_ccl_reduce", "recv"), ("bpa_ccl_gather", "recv"),
    ("bpa_ccl_scatter_v", "send"), ("bpa_ccl_gather_v", "recv"), ("bpa_ccl_call", "counts"),
    ("bpa_ccl_call", "send_counts"),
    ("bpa_ccl_store_release", "store"), ("bpa_ccl_group_release", "group"),
    ("bpa_ccl_work_release", "work"),
    ("bpa_ccl_mesh_args", "name"), ("bpa_ccl_mesh_args", "ranks"),
    ("bpa_ccl_redistribute_args", "stream"), ("bpa_ccl_data_parallel_ready", "gradient"),
    ("bpa_ccl_data_parallel_ready", "stream"), ("bpa_ccl_data_parallel_accumulate", "stream"),
    ("bpa_ccl_data_parallel_finish", "stream"), ("bpa_ccl_mesh_release", "mesh"),
    ("bpa_ccl_data_parallel_release", "parallel"),
    ("bpa_ccl_job_release", "job"),
}
SIZES = [("a negative size", "f.negative_sizes"), ("sizes that overflow", "f.huge_sizes")]
DTYPES = [("dtype none", "0u"), ("an unknown dtype", "999u"), ("a dtype of all bits", "UINT32_MAX")]
PLACEMENTS = [("a dimension too many", "f.deep"), ("no reduction", "f.no_reduction"),
              ("no placement", "f.no_placement")]
BLOCKS = [("another count", "f.other_counts", "expected 5 elements by the counts"),
          ("all bits", "f.huge_counts", "beyond what any device has")]
OWN_BLOCKS = [("others than for itself", "f.other_counts", "all_to_all_v: rank 0 sends itself"),
              ("all bits", "f.huge_counts", "all_to_all_v: rank 0 sends itself")]
COUNTS = [("0", "0u"), ("2", "2u"), ("all bits", "UINT32_MAX")]
# Wrong values that no type tells: (what, value[, the name that the words give instead]).
WRONG = {
    "dtype": DTYPES, "rank": [("17 dimensions", "17u"), ("rank of all bits", "UINT32_MAX")],
    "level": [("level 5", "5u"), ("all bits", "UINT32_MAX")],
    "op_id": [("no operator", "UINT32_MAX")],
    "index": [("one too many", "f.many"), ("all bits", "UINT64_MAX")],
    "bytes": [("0", "0u"), ("one too many", "sizeof(f.values) + 1"), ("all bits", "UINT64_MAX")],
    ("bpa_session_create", "bytes"): [
        ("0", "0u"), ("too few", "f.model.size() - 1", "truncated"), ("all bits", "UINT64_MAX")],
    ("bpa_wrap_args", "bytes"): [("too few", "4u", "args.sizes"), ("all bits", "UINT64_MAX")],
    "flags": [("all bits", "UINT64_MAX"), ("the highest bit", "uint64_t{1} << 63")],
    "access": [("neither", "0u"), ("an unknown bit", "4u"), ("all bits", "UINT32_MAX")],
    ("bpa_stream_wrap", "handle"): [("no queue", "0u", "the queue is NULL")],
    ("bpa_stream_wrap", "kind"): [("an unknown kind", '"acme.queue"', "queues are of kind")],
    ("bpa_stream_acquire_tensor", "tensor"): [("of the host", "f.host_tensor")],
    ("bpa_stream_release_tensor", "tensor"): [("of the host", "f.host_tensor")],
    "output_count": [("0", "0u"), ("2", "2u"),
                     ("all bits", "UINT32_MAX", "argument out")],
    "input_count": [("all bits", "UINT32_MAX", "input")],
    "sizes": SIZES,
    ("bpa_wrap_args", "sizes"): SIZES + [("beyond the memory", "f.large_sizes")],
    ("bpa_wrap_args", "strides"): [("negative beyond the memory", "f.negative_strides"),
                                   ("beyond the memory", "f.large_strides"),
                                   ("that overflow", "f.huge_strides")],
    ("bpa_tensor_view", "strides"): [("negative beyond the memory", "f.negative_strides", "sizes"),
                                     ("that overflow", "f.huge_strides", "sizes")],
    ("bpa_tensor_view", "flags"): [("all bits", "UINT32_MAX"), ("the highest bit", "1u << 31")],
    "offset": [("beyond the memory", "1", "sizes"), ("before the memory", "-1", "sizes"),
               ("all bits", "INT64_MAX", "sizes"), ("the lowest", "INT64_MIN", "sizes")],
    ("bpa_tensor_assign", "target"): [("of the host", "f.host_tensor")],
    ("bpa_wrap_args", "memory"): [
        ("handle 0", "(bp_mem{0, 0})"), ("misaligned", "(bp_mem{f.address() + 1, 0})"),
        ("offset beyond", "(bp_mem{f.address(), 1024})"),
        ("offset of all bits", "(bp_mem{f.address(), UINT64_MAX})")],
    "device_count": [("5", "5u", "args.device"), ("all bits", "UINT64_MAX", "args.device")],
    "reserved": [("not 0", "1u")],
    ("bpa_session_args", "dim_count"): [("without arrays", "1u", "args.dim_names"),
                                        ("all bits", "UINT64_MAX", "args.dim_names")],
    ("bpa_session_args", "range_mins"): [("below 0", "f.negative_sizes", "args.range_mins[0]")],
    ("bpa_session_args", "range_maxes"): [("below min", "f.negative_sizes", "args.range_maxes[0]")],
    ("bpa_session_args", "range_count"): [("without arrays", "1u", "args.range_names"),
                                          ("all bits", "UINT64_MAX", "args.range_names")],
    ("bpa_runtime_args", "option_count"): [("all bits", "UINT64_MAX", "args.option_names")],
    ("bpa_run_args", "input_count"): [("2", "2u"), ("all bits", "UINT64_MAX")],
    ("bpa_run_args", "bound_output_count"): [("2", "2u"), ("all bits", "UINT64_MAX"),
                                             ("without the array", "1u", "args.bound_outputs")],
    "reduction": [("no reduction", "5u"), ("all bits", "UINT32_MAX")],
    "root": [("no rank", "1u"), ("all bits", "UINT32_MAX")],
    "peer": [("no rank", "1u"), ("all bits", "UINT32_MAX")],
    ("bpa_ccl_call", "root"): [("not 0 where there is none", "1u", "has no root")],
    ("bpa_ccl_call", "kind"): [("no kind", "11u"), ("all bits", "UINT32_MAX")],
    "call_count": [("0", "0u"), ("1,025", "1025u"), ("all bits", "UINT64_MAX")],
    "stride_bytes": [("0", "0u"), ("odd", "44u"), ("all bits", "UINT64_MAX"),
                     ("less than the struct", "16u", "argument calls[0]")],
    ("bpa_ccl_all_reduce", "send"): [("of the host", "f.host_tensor", "all_reduce: send is")],
    ("bpa_ccl_all_reduce", "recv"): [("of the host", "f.host_tensor", "all_reduce: recv is")],
    ("bpa_ccl_all_to_all", "recv"): [("the same as send", "f.tensor", "overlap")],
    ("bpa_ccl_all_to_all_v", "recv"): [("the same as send", "f.tensor", "overlap")],
    "counts": BLOCKS, "send_counts": OWN_BLOCKS, "recv_counts": OWN_BLOCKS,
    ("bpa_ccl_call", "counts"): [("of a kind without blocks", "f.counts", "has no blocks")],
    ("bpa_ccl_call", "send_counts"): [("of a kind without blocks", "f.counts", "has no blocks")],
    ("bpa_ccl_group_args", "rank_count"): [("0", "0u"), ("all bits", "UINT32_MAX")],
    ("bpa_ccl_group_args", "name"): [("empty", '""')],
    ("bpa_ccl_group_args", "timeout_ns"): [("too long", "UINT64_MAX")],
    ("bpa_ccl_options", "timeout_ns"): [("too long", "UINT64_MAX")],
    ("bpa_ccl_rebuild_args", "epoch"): [("0", "0u", "expected an epoch above")],
    ("bpa_ccl_rebuild_args", "members"): [
        ("no rank", "f.one", "members: expected ranks from 0 to 0, found 1")],
    ("bpa_ccl_rebuild_args", "member_count"): [
        ("0", "0u", "members: there are none"), ("all bits", "UINT64_MAX")],
    ("bpa_ccl_rebuild_args", "timeout_ns"): [("too long", "UINT64_MAX")],
    ("bpa_ccl_split_args", "color"): [("-2", "-2", "color: expected -1")],
    ("bpa_ccl_split_args", "timeout_ns"): [("too long", "UINT64_MAX")],
    ("bpa_ccl_group_get_trace", "bytes"): [("0", "0u"), ("too few", "8u")],
    "axis": [("no axis", '"y"')],
    "placements": PLACEMENTS, "placement_count": COUNTS, "tensor_count": COUNTS,
    ("bpa_ccl_redistribute_args", "from"): PLACEMENTS,
    ("bpa_ccl_redistribute_args", "to"): PLACEMENTS + [
        ("partial from another partial", "f.averages", "cannot become partial avg")],
    ("bpa_ccl_redistribute_args", "tensor"): [("of the host", "f.host_tensor", "tensor is f32")],
    ("bpa_ccl_redistribute_args", "timeout_ns"): [("too long", "UINT64_MAX")],
    ("bpa_ccl_mesh_args", "name"): [("empty", '""')],
    ("bpa_ccl_mesh_args", "rank_count"): [("0", "0u"), ("all bits", "UINT32_MAX"),
                                          ("no product", "2u", "there are 2 ranks")],
    ("bpa_ccl_mesh_args", "axis_count"): [("0", "0u"), ("17", "17u"), ("all bits", "UINT32_MAX")],
    ("bpa_ccl_mesh_args", "axis_sizes"): [("0", "f.zero", "axis x has size 0")],
    ("bpa_ccl_mesh_args", "ranks"): [("no rank", "f.one", "place 0 has rank 1")],
    ("bpa_ccl_mesh_args", "timeout_ns"): [("too long", "UINT64_MAX")],
    ("bpa_ccl_data_parallel_args", "parameter_count"): [("0", "0u"), ("all bits", "UINT64_MAX")],
    ("bpa_ccl_data_parallel_args", "timeout_ns"): [("too long", "UINT64_MAX")],
    ("bpa_ccl_data_parallel_accumulate", "gradient"): [
        ("of the host", "f.host_tensor", "tensor 0 is f32")],
    ("bpa_ccl_store_create_file", "path"): [("empty", '""')],
    ("bpa_ccl_store_create_file", "job"): [("empty", '""'), ("too long", "f.long_text.c_str()")],
    ("bpa_ccl_tcp_store_args", "endpoint"): [
        ("empty", '""'), ("no address", '"the.name.of.a.host:80"'), ("no port", '"127.0.0.1"'),
        ("port 0", '"127.0.0.1:0"')],
    ("bpa_ccl_tcp_store_args", "token_file"): [("empty", '""'), ("a folder", '"/"')],
    ("bpa_ccl_tcp_store_args", "job"): [("empty", '""'), ("too long", "f.long_text.c_str()")],
}
# Values that are all legal: nothing can be wrong with them.
ANY_IS_LEGAL = {"status", "user", "sink", "timeout_ns", "max_contexts", "memory_limit_bytes",
                "deleter", "attributes", "out_work", ("bpa_session_args", "dim_sizes"),
                "bucket_bytes", "first_bucket_bytes", ("bpa_ccl_split_args", "key")}
MEMBER_ARRAYS = {  # wrong entries of arrays, with what else makes the array valid
    ("bpa_runtime_args", "option_names"): "args.option_count = 1;",
    ("bpa_runtime_args", "option_values"): "args.option_count = 1;",
    ("bpa_session_args", "dim_names"): "args.dim_count = 1; args.dim_sizes = f.sizes;",
    ("bpa_session_args", "range_names"):
        "args.range_count = 1; args.range_mins = args.range_maxes = f.sizes;",
    ("bpa_session_args", "range_mins"):
        "args.range_count = 1; args.range_names = f.input_names; args.range_maxes = f.sizes;",
    ("bpa_session_args", "range_maxes"):
        "args.range_count = 1; args.range_names = f.input_names; args.range_mins = f.sizes;",
    ("bpa_session_args", "devices"): "args.device = nullptr; args.device_count = 1;",
    ("bpa_run_args", "input_names"): "", ("bpa_run_args", "inputs"): "",
    ("bpa_run_args", "bound_outputs"): "args.bound_output_count = 1;",
}
VOID_WITH_HANDLE = {"bpa_runtime_release", "bpa_stream_release", "bpa_session_release",
                    "bpa_cancel_release", "bpa_ccl_store_release", "bpa_ccl_group_release",
                    "bpa_ccl_work_release", "bpa_ccl_mesh_release",
                    "bpa_ccl_data_parallel_release",
                    "bpa_ccl_job_release",
                    "bpa_tensor_release", "bpa_tensor_retain"}


def handle_of(type_name):
    """The handle type of `bpa_x*`, also const; None for others."""
    base = type_name.removeprefix("const ").removesuffix("*")
    return base if type_name.endswith("*") and base in HANDLES else None


def struct_of(type_name, structs):
    base = type_name.removeprefix("const ").removesuffix("*")
    return base if base in structs else None


def lookup(table, owner, name):
    return table.get((owner, name), table.get(name))


def null_is_legal(owner, name):
    return name in NULL_IS_LEGAL or (owner, name) in NULL_IS_LEGAL


def bad_handles(handle):
    kind = HANDLES[handle]
    yield "released", f"f.stale_{kind}"
    for what, value in (("foreign 1", "1"), ("on the stack", "f.stack_address()"),
                        ("all bits", "UINT64_MAX"), ("forged", "f.forged()")):
        yield what, f"foreign<{handle}>({value})"
    for other in HANDLES:
        if other != handle:
            yield f"a {HANDLES[other]}", f"as<{handle}>(f.{HANDLES[other]})"


class Generator:
    def __init__(self, functions, structs):
        self.structs = structs
        self.cases = []
        for function in functions:
            self.function(function)

    def add(self, function, argument, what, names, setup, values):
        """One call: `values` by parameter name. names: what the words must hold, "" for valid."""
        declared, arguments = [], []
        for parameter in function.parameters:
            value = values[parameter.name]
            if value.startswith("out:"):
                declared.append(value[4:])
                value = "&" + parameter.name if "[" not in value else parameter.name
            arguments.append(value)
        call = f"{function.name}({', '.join(arguments)})"
        if function.result == "bpa_status":
            body = [*declared, *setup, f"f.result = {call};"]
            body += [f"f.settle({p.name}{'[0]' if '[' in values[p.name] else ''});"
                     for p in function.parameters
                     if values[p.name].startswith("out:") and not struct_of(p.type, self.structs)]
        else:
            body = [*declared, *setup, f"{'' if function.result == 'void' else '(void)'}{call};"]
        self.cases.append((function, argument, what, names, body))

    def valid_values(self, function):
        """(value by parameter, lines that make the structs by the value that needs them)."""
        values, setup = {}, {}
        for parameter in function.parameters:
            values[parameter.name] = self.valid_value(function, parameter, setup)
        return values, setup

    def valid_value(self, function, parameter, setup):
        name, type_name = parameter.name, parameter.type
        struct = struct_of(type_name, self.structs)
        if (function.name, name) in VALID:
            return VALID[function.name, name]
        if name.startswith("out_"):
            if struct:
                return f"out:{struct} {name}{{}}; {name}.struct_size = sizeof({name});"
            if name == "out_outputs":
                return f"out:bpa_tensor* {name}[2] = {{}};"
            if type_name.endswith("**") or type_name in ("uint64_t*", "uint32_t*"):
                return f"out:auto {name} = poison<{type_name.removesuffix('*')}>();"
        if struct:
            setup[f"&{name}"] = f"auto {name} = {STRUCTS[struct]};"
            return f"&{name}"
        value = lookup(VALID, function.name, name)
        if value is None:
            raise api_headers.HeaderError(f"{function.name}: no rule for argument {name}")
        return value

    def function(self, function):
        values, setup = self.valid_values(function)
        before = [PREPARED[function.name]] if function.name in PREPARED else []
        self.add(function, "", "valid", "", before + list(setup.values()), values)
        for parameter in function.parameters:
            count = len(self.cases)
            for what, value, names in self.wrong_arguments(function, parameter):
                wrong = {**values, parameter.name: value}
                needed = [line for address, line in setup.items() if address in wrong.values()]
                self.add(function, parameter.name, what, names, needed, wrong)
            struct = struct_of(parameter.type, self.structs)
            if struct and not parameter.name.startswith("out_"):
                for member, what, line, names in self.wrong_members(struct, parameter.name):
                    self.add(function, f"{parameter.name}.{member}", what, names,
                             [*setup.values(), line], values)
            elif struct:
                self.wrong_out_struct(function, parameter, list(setup.values()), values)
            key = (function.name, parameter.name)
            free = parameter.name in ANY_IS_LEGAL or key in ANY_IS_LEGAL
            if len(self.cases) == count and not free:
                raise api_headers.HeaderError(f"{key}: nothing is known to be wrong with it")

    def wrong_arguments(self, function, parameter):
        name, type_name, handle = parameter.name, parameter.type, handle_of(parameter.type)
        is_pointer = type_name.endswith("*") or type_name == "bpa_run_callback"
        words = function.name if function.name in VOID_WITH_HANDLE else f"argument {name}"
        if is_pointer and not null_is_legal(function.name, name):
            yield "NULL", "nullptr", words
        if handle:
            for what, value in bad_handles(handle):
                yield what, value, words
        if type_name == "const char*":
            yield "not UTF-8", "f.not_utf8", words
        if type_name == "const char* const*":
            yield "a NULL entry", "f.null_texts", words
            yield "an entry that is not UTF-8", "f.bad_texts", words
        if type_name == "const bpa_tensor* const*":
            for what, value in bad_handles("bpa_tensor"):
                yield f"an entry: {what}", f"f.one_input({value})", f"{words}[0]"
        for what, value, *other in lookup(WRONG, function.name, name) or ():
            yield what, value, other[0] if other else words

    def wrong_out_struct(self, function, parameter, setup, values):
        name = parameter.name
        for what, line in (("struct_size 0", "struct_size = 0"), ("too small", "struct_size = 4"),
                           ("odd size", "struct_size = 13"),
                           ("too large", "struct_size = 65544"),
                            ("unknown flags", "flags = 1u << 31")):
            self.add(function, name, what, f"argument {name}", [*setup, f"{name}.{line};"], values)

    def wrong_members(self, struct, parameter):
        """(member, what, line that sets it, words)."""
        title = parameter if parameter != "calls" else "calls[0]"
        for what, line in (("struct_size 0", "struct_size = 0;"),
                           ("too small", "struct_size = 4;"),
                           ("odd size", "struct_size = 13;"),
                           ("too large", "struct_size = 65544;"),
                           ("unknown flags", "flags = 1u << 31;")):
            yield what, what, f"{parameter}.{line}", f"argument {title}"
        for member in self.structs[struct][2:]:
            found = list(self.wrong_member(struct, member, parameter, title))
            if not found and member.name not in ANY_IS_LEGAL and \
                    (struct, member.name) not in ANY_IS_LEGAL:
                raise api_headers.HeaderError(
                    f"{struct}.{member.name}: nothing is known to be wrong")
            yield from found

    def wrong_member(self, struct, member, parameter, title):
        name, type_name = member.name, member.type
        words = f"argument {title}.{name}"
        before = MEMBER_ARRAYS.get((struct, name), "")
        place = f"{before} {parameter}.{name}"
        if type_name.endswith("*") and not null_is_legal(struct, name):
            yield name, "NULL", f"{place} = nullptr;", words
        handle = handle_of(type_name)
        if handle:
            for what, value in bad_handles(handle):
                yield name, what, f"{place} = {value};", words
        if type_name == "const char*":
            yield name, "not UTF-8", f"{place} = f.not_utf8;", words
        if type_name == "const char* const*":
            yield name, "a NULL entry", f"{place} = f.null_texts;", words
            yield name, "not UTF-8", f"{place} = f.bad_texts;", words
        for kind, one in (("bpa_tensor", "one_input"), ("bpa_tensor", "one_tensor"),
                          ("bpa_device", "one_device")):
            wanted = {"one_input": "const bpa_tensor* const*", "one_tensor": "bpa_tensor* const*",
                      "one_device": "bpa_device* const*"}[one]
            if type_name == wanted:
                for what, value in bad_handles(kind):
                    yield name, what, f"{place} = f.{one}({value});", f"{words}[0]"
        for what, value, *other in lookup(WRONG, struct, name) or ():
            yield name, what, f"{place} = {value};", other[0] if other else words


def bad_input(functions, structs):
    cases = Generator(functions, structs).cases
    lines = ["// SPDX-License-Identifier: Apache-2.0", "//",
             "// Generated by generate_cases.py from the C headers; edits are lost.",
             '#include "tests/api/bad_input.hpp"', "", "namespace bp::bad_input {",
              "namespace {", ""]
    rows = []
    for number, (function, argument, what, names, body) in enumerate(cases):
        lines.append(f"void case_{number}(Fixture& f) {{")
        lines += [f"  {line}" for line in body]
        lines += ["  (void)f;", "}"]
        has_status = "true" if function.result == "bpa_status" else "false"
        rows.append(f'    {{"{function.name}", "{argument}", "{what}", "{names}", {has_status}, '
                    f"case_{number}}},")
    lines += ["", f"constexpr std::array<Case, {len(rows)}> kCases = {{{{", *rows, "}};", "",
              "}  // namespace", "", "std::span<const Case> cases() { return kCases; }", "",
              "}  // namespace bp::bad_input", ""]
    return "\n".join(lines)


def addresses(functions, _structs):
    lines = ["/* SPDX-License-Identifier: Apache-2.0", " *",
             " * Generated by generate_cases.py: takes the address of every function, as C11.",
              " */",
             "#include <backplane/backplane.h>", "#include <backplane/ops.h>", "#include <stdio.h>",
             "", "typedef void (*any_function)(void);", "", "int main(void) {",
             "  static const any_function functions[] = {"]
    lines += [f"      (any_function){function.name}," for function in functions]
    lines += ["  };", "  for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {",
              "    if (functions[i] == NULL) return 1;", "  }",
              f'  printf("{len(functions)} functions, version %s\\n", bpa_version());',
              "  return 0;", "}", ""]
    return "\n".join(lines)


def main(folder, kind, out):
    makers = {"bad_input": bad_input, "addresses": addresses}
    text = makers[kind](*api_headers.read(folder))
    path = pathlib.Path(out)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
