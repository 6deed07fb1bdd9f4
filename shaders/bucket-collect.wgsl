// The ids of the tokens in a job's buckets of interest, in no order: in round 0 the bucket that is searched first and the
// one guessed for the draw, in round 1 the draw's where the guess was wrong.
//
//   step    metadata; logits rows = step[2]
//   logits  logit-words*.wgsl
//   rows, jobs, chunks, picks, lists  sampler-state.wgsl
//
// Threads and buckets: bucket-job.wgsl. A chunk whose best is below the bucket isn't
// read. A count above LIST says that the list is not whole. Prepend step, sampler-state, logit-words and
// bucket-job.
@group(0) @binding(6) var<storage, read> picks: array<u32>;
@group(0) @binding(7) var<storage, read_write> lists: array<atomic<u32>>;

// Buckets, and where their lists begin.
var<private> wanted: f32;
var<private> guess: f32;
var<private> listAt: u32;
var<private> guessAt: u32;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let job = takeJob(group.y * groups.x + group.x, lane);
  if (job == NONE) {
    return;
  }
  let jobAt = job * JOB_STATE;
  wanted = f32(jobs[jobAt + JOB_BUCKET]);
  guess = -1.0;
  listAt = job * SEARCH_STATE + DIGITS_STATE;
  if (params.round == 0u) {
    if (jobs[jobAt + JOB_GUESS] != NONE) {
      guess = f32(jobs[jobAt + JOB_GUESS]);
    }
  } else {
    let pending = picks[job * PICK_STATE + PICK_PENDING];
    if (pending == NONE) {
      return;
    }
    wanted = f32(pending);
    listAt += 2u * (LIST + 1u);
  }
  guessAt = job * SEARCH_STATE + DIGITS_STATE + LIST + 1u;
  let deepest = max(wanted, guess);
  if (best >= floor && placeOf(best, high, low, bucketScale) < deepest + 1.0) {
    let end = endWordOf(chunk, params.vocabulary);
    for (var word = firstWordOf(chunk); word < end; word += STRANDS) {
      // A loop, since SwiftShader goes through an if whose condition holds for no thread.
      let places = placesOf(word);
      var some = any(meets(places));
      while (some) {
        take(word, places);
        some = false;
      }
    }
  }
}

// Buckets of a word's ids, before the fraction is cut off; of those that don't count, none.
fn placesOf(word: u32) -> vec4<f32> {
  let values = bitcast<vec4<f32>>(logitWord(words, word, params.vocabulary));
  let places = min((vec4<f32>(high) - max(values, vec4<f32>(low))) * bucketScale, vec4<f32>(255.0));
  return select(vec4<f32>(-2.0), places, values >= vec4<f32>(floor));
}

fn meets(places: vec4<f32>) -> vec4<bool> {
  let first = (places >= vec4<f32>(wanted)) & (places < vec4<f32>(wanted + 1.0));
  return first | ((places >= vec4<f32>(guess)) & (places < vec4<f32>(guess + 1.0)));
}

fn take(word: u32, places: vec4<f32>) {
  var left = places;
  var found = meets(places);
  for (var id = word * 4u; id < params.vocabulary && any(found); id++) {
    if (found.x) {
      let at = select(guessAt, listAt, left.x >= wanted && left.x < wanted + 1.0);
      let place = atomicAdd(&lists[at], 1u);
      if (place < LIST) {
        atomicStore(&lists[at + 1u + place], id);
      }
    }
    left = left.yzwx;
    found = vec4<bool>(found.yzw, false);
  }
}
