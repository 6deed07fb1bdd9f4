// Which experts a row goes to, and by what share each counts: of softmax(logits[r]) over all EXPERTS the CHOSEN largest,
//
//   list[r * CHOSEN + i] = expert i of the row, largest first; of equal ones the lower index first
//                            (logits below the least normal float are equal to zero)
//   shares[r * CHOSEN + i] = its probability; normalised: over the sum of the chosen ones'
//
//   step    metadata; rows = step[0]
//   logits  [rows, stride] f32, of the router's product
//
// A workgroup a row. An expert's place is how many are before it, so that a NaN too has one place, and the list names
// CHOSEN experts whatever the logits are: shares show a NaN. Sums are made in one order, experts by index and chosen
// ones by place. -inf is a probability of 0. Prepend logit-key.wgsl and the constants EXPERTS and CHOSEN.
struct Params {
  stride: u32,
  normalised: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read_write> list: array<u32>;
@group(0) @binding(4) var<storage, read_write> shares: array<f32>;

const THREADS = 64u;

var<workgroup> keys: array<u32, EXPERTS>;
var<workgroup> powers: array<f32, EXPERTS>;
var<workgroup> chosen: array<u32, CHOSEN>;
var<workgroup> largest: f32;

@compute @workgroup_size(THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.y * groups.x + group.x;
  let inside = row < step[0];
  let at = select(0u, row, inside) * params.stride;
  for (var expert = lane; expert < EXPERTS; expert += THREADS) {
    keys[expert] = logitKey(logits[at + expert]);
  }
  workgroupBarrier();
  for (var expert = lane; expert < EXPERTS; expert += THREADS) {
    let key = keys[expert];
    var before = 0u;
    for (var other = 0u; other < EXPERTS; other++) {
      if (keys[other] > key || (keys[other] == key && other < expert)) {
        before++;
      }
    }
    if (before < CHOSEN) {
      chosen[before] = expert;
    }
    if (before == 0u) {
      largest = logits[at + expert];
    }
  }
  workgroupBarrier();
  for (var expert = lane; expert < EXPERTS; expert += THREADS) {
    powers[expert] = exp(logits[at + expert] - largest);
  }
  workgroupBarrier();
  if (!inside) {
    return;
  }
  for (var i = lane; i < CHOSEN; i += THREADS) {
    var sum = 0.0;
    if (params.normalised != 0u) {
      for (var j = 0u; j < CHOSEN; j++) {
        sum += powers[chosen[j]];
      }
    } else {
      for (var expert = 0u; expert < EXPERTS; expert++) {
        sum += powers[expert];
      }
    }
    list[row * CHOSEN + i] = chosen[i];
    shares[row * CHOSEN + i] = powers[chosen[i]] / sum;
  }
}
