// output[c, outputAt + r] (+)= sum over k of weights[r, k] * input[firstColumn + c, k].
//
//   step     metadata; columns there are = step[countWord]
//   weights  [outputs, words] in tiles of 64 rows, as its weight-*.wgsl says; zero past K
//   input    [columns, inputWords] vec4, zero past K
//   output   [columns, outputStride] f32
//   scales   of quantised formats, as weight-q4.wgsl says
//
// One source for matrix-vector products and for matmul. A thread owns ROWS rows of a tile by COLUMNS columns in
// registers: what costs is loads, and a row's word serves all columns, a column's word all rows. Neighbouring threads
// have neighbouring rows, whose words are neighbours; columns come after all rows.
//
// K is cut into splits of splitWords words, added in order, and a split's sum is four chains over k mod 4, added as
// (0+1)+(2+3): the order of a row's sum follows from K and the splits, not from ROWS, COLUMNS or the threads of a
// workgroup, so that all variants give the same bits. With SPLIT each split has threads of its own in the workgroup,
// for adapters on which the rows alone are too few threads; else a thread walks all of them.
//
// NORMED: the input is a row x of the residual stream times the norm's gain (linear-add.wgsl, norm-input.wgsl wrote both
// it and the sums of x^2), so the sums only miss the factor 1 / sqrt(mean(x^2) + epsilon).
//
// A template (src/gpu/template.ts). The line `#unit` stands for linear-dense.wgsl or linear-quant.wgsl, the line
// `#finish` for what is done with the sums: linear-store.wgsl, -add, -gate or -rotate.
// Prepend the constants ROWS, COLUMNS, THREADS, SPLIT_THREADS and *_BINDING, and the files of the weight's format.
struct Params {
  // Rows of the part; of paired ones pairs, over all parts.
  outputs: u32,
  words: u32,
  splitWords: u32,
  inputWords: u32,
  outputStride: u32,
  // The part's first row, or pair.
  outputAt: u32,
  countWord: u32,
  firstColumn: u32,
  tiles: u32,
  // Of the norm.
  normColumns: u32,
  epsilon: f32,
  squaresWords: u32,
  // What #finish asks for.
  extra0: u32,
  extra1: u32,
  extra2: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<WeightWord>;
@group(0) @binding(3) var<storage, read> input: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> output: array<f32>;

// Threads that share a tile.
const TILE_THREADS = TILE / ROWS;

#if SPLIT
var<workgroup> sums: array<f32, THREADS * SPLIT_THREADS * ROWS * COLUMNS>;
#end

#if NORMED
@group(0) @binding(SQUARES_BINDING) var<storage, read> squares: array<vec4<f32>>;

fn normFactor(column: u32) -> f32 {
  var sums = vec4<f32>();
  for (var word = 0u; word < params.squaresWords; word++) {
    sums += squares[column * params.squaresWords + word];
  }
  let sum = (sums.x + sums.y) + (sums.z + sums.w);
  return 1.0 / sqrt(sum / f32(params.normColumns) + params.epsilon);
}
#end

#declare
#if QUADS
// A quad's threads have the same columns and leave together, which the compiler can't see.
@diagnostic(off, subgroup_uniformity)
#end
@compute @workgroup_size(THREADS, SPLIT_THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  #if QUADS
  @builtin(subgroup_invocation_id) subgroupLane: u32,
  #end
) {
  #if QUADS
  let quadLane = subgroupLane % 4u;
  #end
  let thread = (group.y * groups.x + group.x) * THREADS + local.x;
  let rowThreads = params.tiles * TILE_THREADS;
  let column = thread / rowThreads * COLUMNS;
  let tile = thread % rowThreads / TILE_THREADS;
  let lane = thread % rowThreads % TILE_THREADS;
  let count = step[params.countWord];
  #if WHOLE
  if (params.firstColumn + column >= count) {
    return;
  }
  #end
  // Columns past the end repeat the last one, and are not stored. Rows past the end are zeros of the tile.
  let lastColumn = max(count, 1u) - 1u;
  #for c COLUMNS
  let input$c = min(params.firstColumn + column + $cu, lastColumn) * params.inputWords;
  #end
  #for r ROWS
  #for c COLUMNS
  var total$r_$c = 0.0;
  #end
  #end
  #if SPLIT
  {
    let first = local.y * params.splitWords;
  #end
  #if WHOLE
  for (var first = 0u; first < params.words; first += params.splitWords) {
  #end
    let end = min(first + params.splitWords, params.words);
    #for r ROWS
    #for c COLUMNS
    var s$r_$c = vec4<f32>();
    #end
    #end
    for (var word = first; word < end; word++) {
#unit
    }
    #for r ROWS
    #for c COLUMNS
    total$r_$c += (s$r_$c.x + s$r_$c.y) + (s$r_$c.z + s$r_$c.w);
    #end
    #end
  }
  #if SPLIT
  let sumsAt = (local.y * THREADS + local.x) * ROWS * COLUMNS;
  #for r ROWS
  #for c COLUMNS
  sums[sumsAt + $ru * COLUMNS + $cu] = total$r_$c;
  #end
  #end
  workgroupBarrier();
  if (local.y != 0u) {
    return;
  }
  let stride = THREADS * ROWS * COLUMNS;
  for (var split = 1u; split < SPLIT_THREADS; split++) {
    #for r ROWS
    #for c COLUMNS
    total$r_$c += sums[split * stride + sumsAt + $ru * COLUMNS + $cu];
    #end
    #end
  }
  #end
  // What is done with a sum stands in a loop: 32 times its code would take a second to compile.
  var totals: array<f32, ROWS * COLUMNS>;
  #for c COLUMNS
  {
    #if NORMED
    let factor = normFactor(min(params.firstColumn + column + $cu, lastColumn));
    #end
    #for r ROWS
    #if NORMED
    totals[$ru * COLUMNS + $cu] = total$r_$c * factor;
    #end
    #if PLAIN
    totals[$ru * COLUMNS + $cu] = total$r_$c;
    #end
    #end
  }
  #end
#finish
}
