// In which bucket a job's cut is, or its draw where there is no cut; a guess of the draw's where there is one.
//
//   step      metadata; logits rows = step[2]
//   jobs, lists  sampler-state.wgsl
//   partials  [jobs, spans, 2, 256] of bucket-masses.wgsl
//
// A workgroup of 64 a job; a thread adds the spans of four buckets in order, then every thread the threads before it.
// Prepend step, sampler-state, threefry and draw.
struct Params {
  vocabulary: u32,
  spans: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> partials: array<u32>;
@group(0) @binding(3) var<storage, read_write> jobs: array<u32>;
@group(0) @binding(4) var<storage, read_write> lists: array<u32>;

const MASS_UNIT = 0.000003814697265625;

var<workgroup> laneCounts: array<u32, 64>;
var<workgroup> laneMasses: array<f32, 64>;
var<workgroup> task: u32;
var<workgroup> cutBucket: atomic<u32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let job = group.x;
  let row = job % params.tileRows;
  let record = params.firstRow + row;
  if (job >= 2u * params.tileRows || record >= step[STEP_LOGITS]) {
    return;
  }
  let jobAt = job * JOB_STATE;
  if (lane == 0u) {
    task = jobs[jobAt + JOB_TASK];
  }
  if (workgroupUniformLoad(&task) == 0u) {
    return;
  }
  let limit = jobs[jobAt + JOB_LIMIT];
  let massLimit = bitcast<f32>(jobs[jobAt + JOB_MASS_LIMIT]);
  let step2 = bucketLog2(bitcast<f32>(jobs[jobAt + JOB_LOG2_SCALE]), bitcast<f32>(jobs[jobAt + JOB_BUCKET_SCALE]));
  var counts: vec4<u32>;
  var masses: vec4<f32>;
  for (var j = 0u; j < 4u; j++) {
    let bucket = lane * 4u + j;
    var count = 0u;
    var mass = 0.0;
    for (var span = 0u; span < params.spans; span++) {
      let at = (job * params.spans + span) * 2u * BUCKETS + bucket;
      count += partials[at];
      mass += f32(partials[at + BUCKETS]);
    }
    counts[j] = count;
    masses[j] = mass * MASS_UNIT * exp2(-f32(bucket) * step2);
  }
  laneCounts[lane] = (counts.x + counts.y) + (counts.z + counts.w);
  laneMasses[lane] = ((masses.x + masses.y) + masses.z) + masses.w;
  if (lane == 0u) {
    atomicStore(&cutBucket, NONE);
  }
  workgroupBarrier();
  var count = 0u;
  var mass = 0.0;
  for (var i = 0u; i < lane; i++) {
    count += laneCounts[i];
    mass += laneMasses[i];
  }
  var countsAbove: vec4<u32>;
  for (var j = 0u; j < 4u; j++) {
    let bucket = lane * 4u + j;
    jobs[jobAt + JOB_ABOVE + bucket] = bitcast<u32>(mass);
    countsAbove[j] = count;
    count += counts[j];
    mass += masses[j];
    if (count >= limit || mass > massLimit) {
      atomicMin(&cutBucket, bucket);
    }
  }
  if (lane == 63u) {
    jobs[jobAt + JOB_ABOVE + BUCKETS] = bitcast<u32>(mass);
  }
  storageBarrier();
  workgroupBarrier();
  let cut = atomicLoad(&cutBucket);
  if (cut != NONE && cut / 4u == lane) {
    jobs[jobAt + JOB_COUNT_ABOVE] = countsAbove[cut % 4u];
  }
  if (lane != 0u) {
    return;
  }
  let lists0 = job * LISTS_OF_JOB;
  for (var i = 0u; i < 3u; i++) {
    lists[lists0 + i * (LIST + 1u)] = 0u;
  }
  jobs[jobAt + JOB_LIST] = 0u;
  let at = step[STEP_LOGITS_AT] + record * 16u;
  if (cut == NONE) {
    // Everything from the floor on stays.
    let kept = bitcast<f32>(jobs[jobAt + JOB_ABOVE + BUCKETS]);
    jobs[jobAt + JOB_KEPT_MASS] = bitcast<u32>(kept);
    jobs[jobAt + JOB_TASK] = select(0u, TASK_DRAW, job < params.tileRows);
    jobs[jobAt + JOB_BUCKET] = bucketAt(jobAt, uniformOf(at) * kept, BUCKETS - 1u);
    return;
  }
  jobs[jobAt + JOB_TASK] = TASK_CUT;
  jobs[jobAt + JOB_BUCKET] = cut;
  jobs[jobAt + JOB_CUT_BUCKET] = cut;
  if (job < params.tileRows) {
    let guess = min(massLimit, bitcast<f32>(jobs[jobAt + JOB_ABOVE + cut + 1u]));
    let bucket = bucketAt(jobAt, uniformOf(at) * guess, cut);
    jobs[jobAt + JOB_GUESS] = select(bucket, NONE, bucket == cut);
  }
}
