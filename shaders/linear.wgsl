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
// A template (src/gpu/template.ts). The line `#unit` stands for linear-dense.wgsl or linear-quant.wgsl.
// Prepend the constants ROWS, COLUMNS, THREADS and SPLIT_THREADS, and the files of the weight's format.
struct Params {
  outputs: u32,
  words: u32,
  splitWords: u32,
  inputWords: u32,
  outputStride: u32,
  outputAt: u32,
  accumulate: u32,
  countWord: u32,
  firstColumn: u32,
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

fn store(column: u32, row: u32, sum: f32) {
  if (row >= params.outputs || params.firstColumn + column >= step[params.countWord]) {
    return;
  }
  let at = column * params.outputStride + params.outputAt + row;
  if (params.accumulate == 1u) {
    output[at] = output[at] + sum;
  } else {
    output[at] = sum;
  }
}

@compute @workgroup_size(THREADS, SPLIT_THREADS)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
) {
  let thread = (group.y * groups.x + group.x) * THREADS + local.x;
  let rowThreads = (params.outputs + TILE - 1u) / TILE * TILE_THREADS;
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
  // One store in a loop: 32 of them, each with its conditions, take a second to compile.
  var totals: array<f32, ROWS * COLUMNS>;
  #for r ROWS
  #for c COLUMNS
  totals[$ru * COLUMNS + $cu] = total$r_$c;
  #end
  #end
  for (var i = 0u; i < ROWS * COLUMNS; i++) {
    store(column + i % COLUMNS, tile * TILE + lane + i / COLUMNS * TILE_THREADS, totals[i]);
  }
}
