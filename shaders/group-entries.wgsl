// Entries of one segment together, in groups of GROUP: a product then reads a segment's weights once for a group. A
// counting sort: which entry of a segment comes first is as threads have it, and changes no number.
//
//   step    metadata; entries = step[0] * entriesARow
//   list    [entries] u32: the segment of each; one of SEGMENTS or more: none, and the entry is in no group
//   groups  how many there are, then of each: its segment, and GROUP entries; NO_ENTRY where it has fewer
//
// One workgroup. Prepend the constants SEGMENTS and GROUP, and segment-entries.wgsl.
struct Params {
  entriesARow: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> list: array<u32>;
@group(0) @binding(3) var<storage, read_write> groups: array<u32>;

const THREADS = 256u;
const GROUP_WORDS = GROUP + 1u;

var<workgroup> counts: array<atomic<u32>, SEGMENTS>;
var<workgroup> placed: array<atomic<u32>, SEGMENTS>;
var<workgroup> firstGroup: array<u32, SEGMENTS>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let entries = step[0] * params.entriesARow;
  // Workgroup memory begins as zeros.
  for (var entry = lane; entry < entries; entry += THREADS) {
    let segment = list[entry];
    if (segment < SEGMENTS) {
      atomicAdd(&counts[segment], 1u);
    }
  }
  workgroupBarrier();
  if (lane == 0u) {
    var all = 0u;
    for (var segment = 0u; segment < SEGMENTS; segment++) {
      firstGroup[segment] = all;
      all += (atomicLoad(&counts[segment]) + GROUP - 1u) / GROUP;
    }
    groups[0] = all;
  }
  workgroupBarrier();
  for (var segment = lane; segment < SEGMENTS; segment += THREADS) {
    let count = atomicLoad(&counts[segment]);
    let own = (count + GROUP - 1u) / GROUP;
    for (var i = 0u; i < own; i++) {
      let at = 1u + (firstGroup[segment] + i) * GROUP_WORDS;
      groups[at] = segment;
      for (var j = 0u; j < GROUP; j++) {
        if (i * GROUP + j >= count) {
          groups[at + 1u + j] = NO_ENTRY;
        }
      }
    }
  }
  for (var entry = lane; entry < entries; entry += THREADS) {
    let segment = list[entry];
    if (segment < SEGMENTS) {
      let place = atomicAdd(&placed[segment], 1u);
      groups[1u + (firstGroup[segment] + place / GROUP) * GROUP_WORDS + 1u + place % GROUP] = entry;
    }
  }
}
