// SPDX-License-Identifier: Apache-2.0
//
// cumsum and cumprod of BP_DTYPE, kept in BP_ACC. One work item goes along a lane.

static inline void scan(BP_INPUT(x), BP_OUTPUT(y), const LanesGeometry* geometry, bool multiplies,
                        bool exclusive) {
  const ulong lane = get_global_id(0);
  if (lane >= geometry->lanes.item_count) return;
  long from = BP_PLACE(geometry->lanes, 0, lane) + geometry->x_start;
  long to = BP_PLACE(geometry->lanes, 1, lane) + geometry->y_start;
  BP_ACC running = multiplies ? 1 : 0;
  for (ulong k = 0; k < geometry->length; ++k) {
    const BP_ACC value = BP_LOAD(BP_DTYPE, x, from);
    const BP_ACC next = multiplies ? running * value : running + value;
    BP_STORE(BP_DTYPE, y, to, (BP_VALUE(BP_DTYPE))(exclusive ? running : next));
    running = next;
    from += geometry->x_step;
    to += geometry->y_step;
  }
}

__kernel void sum_inclusive(BP_INPUT(x), BP_OUTPUT(y), LanesGeometry geometry) {
  scan(x, x_offset, y, y_offset, &geometry, false, false);
}
__kernel void sum_exclusive(BP_INPUT(x), BP_OUTPUT(y), LanesGeometry geometry) {
  scan(x, x_offset, y, y_offset, &geometry, false, true);
}
__kernel void product_inclusive(BP_INPUT(x), BP_OUTPUT(y), LanesGeometry geometry) {
  scan(x, x_offset, y, y_offset, &geometry, true, false);
}
__kernel void product_exclusive(BP_INPUT(x), BP_OUTPUT(y), LanesGeometry geometry) {
  scan(x, x_offset, y, y_offset, &geometry, true, true);
}
