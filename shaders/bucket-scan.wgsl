// In which bucket a job's cut is, or its draw where there is no cut; a guess of the draw's where there is one.
//
//   step      metadata; logits rows = step[2]
//   jobs, picks, lists  sampler-state.wgsl
//   partials  [jobs, spans, 2, 256] of bucket-masses.wgsl; left zero for its next run
//
// A workgroup of 16 a job; a thread adds the spans of 16 buckets in order, then every thread the threads before it.
// Prepend step, sampler-state, threefry, draw and bucket-at.
struct Params {
  vocabulary: u32,
  spans: u32,
  firstRow: u32,
  tileRows: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read_write> partials: array<u32>;
@group(0) @binding(3) var<storage, read_write> jobs: array<u32>;
@group(0) @binding(4) var<storage, read_write> picks: array<u32>;
@group(0) @binding(5) var<storage, read_write> lists: array<u32>;

const MASS_UNIT = 0.00000762939453125;

const SCAN_THREADS = 16u;
const BUCKETS_OF_THREAD = 16u;

var<workgroup> laneCounts: array<u32, SCAN_THREADS>;
var<workgroup> laneMasses: array<f32, SCAN_THREADS>;
var<workgroup> task: u32;
var<workgroup> cutBucket: atomic<u32>;

@compute @workgroup_size(SCAN_THREADS)
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
  let first = lane * BUCKETS_OF_THREAD;
  var count = 0u;
  var mass = 0.0;
  for (var bucket = first; bucket < first + BUCKETS_OF_THREAD; bucket++) {
    var bucketCount = 0u;
    var bucketMass = 0.0;
    for (var span = 0u; span < params.spans; span++) {
      let at = (job * params.spans + span) * 2u * BUCKETS + bucket;
      bucketCount += partials[at];
      bucketMass += f32(partials[at + BUCKETS]);
      partials[at] = 0u;
      partials[at + BUCKETS] = 0u;
    }
    count += bucketCount;
    mass += bucketMass * MASS_UNIT * exp2(-f32(bucket) * step2);
    // Through the bucket, of this thread's only yet.
    jobs[jobAt + JOB_ABOVE + 1u + bucket] = bitcast<u32>(mass);
    jobs[jobAt + JOB_COUNTS + bucket] = count;
  }
  laneCounts[lane] = count;
  laneMasses[lane] = mass;
  if (lane == 0u) {
    atomicStore(&cutBucket, NONE);
  }
  workgroupBarrier();
  var countBefore = 0u;
  var massBefore = 0.0;
  for (var i = 0u; i < lane; i++) {
    countBefore += laneCounts[i];
    massBefore += laneMasses[i];
  }
  for (var bucket = first; bucket < first + BUCKETS_OF_THREAD; bucket++) {
    count = countBefore + jobs[jobAt + JOB_COUNTS + bucket];
    mass = massBefore + bitcast<f32>(jobs[jobAt + JOB_ABOVE + 1u + bucket]);
    jobs[jobAt + JOB_ABOVE + 1u + bucket] = bitcast<u32>(mass);
    jobs[jobAt + JOB_COUNTS + bucket] = count;
    if (count >= limit || mass > massLimit) {
      atomicMin(&cutBucket, bucket);
    }
  }
  storageBarrier();
  workgroupBarrier();
  if (lane != 0u) {
    return;
  }
  let cut = atomicLoad(&cutBucket);
  let lists0 = job * SEARCH_STATE + DIGITS_STATE;
  for (var i = 0u; i < 3u; i++) {
    lists[lists0 + i * (LIST + 1u)] = 0u;
  }
  let at = step[STEP_LOGITS_AT] + record * 16u;
  if (cut == NONE) {
    // Everything from the floor on stays.
    let kept = bitcast<f32>(jobs[jobAt + JOB_ABOVE + BUCKETS]);
    jobs[jobAt + JOB_TASK] = select(0u, TASK_DRAW, job < params.tileRows);
    jobs[jobAt + JOB_KEPT_MASS] = bitcast<u32>(kept);
    picks[job * PICK_STATE + PICK_KEPT_MASS] = bitcast<u32>(kept);
    jobs[jobAt + JOB_BUCKET] = bucketAt(jobAt, uniformOf(at, ROUNDS) * kept, BUCKETS - 1u);
    return;
  }
  jobs[jobAt + JOB_TASK] = TASK_CUT;
  jobs[jobAt + JOB_BUCKET] = cut;
  if (cut > 0u) {
    jobs[jobAt + JOB_COUNT_ABOVE] = jobs[jobAt + JOB_COUNTS + cut - 1u];
  }
  if (job < params.tileRows) {
    let guess = min(massLimit, bitcast<f32>(jobs[jobAt + JOB_ABOVE + cut + 1u]));
    let bucket = bucketAt(jobAt, uniformOf(at, ROUNDS) * guess, cut);
    jobs[jobAt + JOB_GUESS] = select(bucket, NONE, bucket == cut);
  }
}
