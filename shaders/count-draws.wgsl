// Counts the ids that a tile's rows drew, for slots with penalties: counted[slot] gains (id, 1), or the count of id grows.
//
//   step     metadata; logits rows = step[2]
//   results  [logits rows, 4] u32: id, and more that isn't read here
//   slots    [maxSequences, 8] u32, see src/gpu/slot-layout.ts; the number of pairs grows
//   counted  [maxSequences, maxCounted, 2] u32: id, count; ids differ
//
// A workgroup of THREADS a row, whose threads look for the id among the pairs. No two rows of a step count for one slot.
// Prepend step.wgsl.
struct Params {
  firstRow: u32,
  maxCounted: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> results: array<u32>;
@group(0) @binding(3) var<storage, read_write> slots: array<u32>;
@group(0) @binding(4) var<storage, read_write> counted: array<u32>;

var<workgroup> found: atomic<u32>;

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let record = params.firstRow + group.x;
  if (record >= step[STEP_LOGITS]) {
    return;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  if ((step[at + 2u] & LOGITS_ADJUSTED) == 0u) {
    return;
  }
  let slot = step[at + 1u];
  let id = results[record * 4u];
  let counting = slots[slot * 8u] == 1u;
  let pairs = slots[slot * 8u + 4u];
  let pairsAt = slot * params.maxCounted * 2u;
  if (counting) {
    for (var pair = lane; pair < pairs; pair += THREADS) {
      if (counted[pairsAt + pair * 2u] == id) {
        counted[pairsAt + pair * 2u + 1u] += 1u;
        atomicStore(&found, 1u);
      }
    }
  }
  workgroupBarrier();
  if (counting && lane == 0u && atomicLoad(&found) == 0u && pairs < params.maxCounted) {
    counted[pairsAt + pairs * 2u] = id;
    counted[pairsAt + pairs * 2u + 1u] = 1u;
    slots[slot * 8u + 4u] = pairs + 1u;
  }
}
