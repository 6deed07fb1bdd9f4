// Unsigned quants of four bits: value = scale * q + min. A word holds a unit, 32 columns of one row: column 4i + l of it
// is nibble i of lane l, so that one mask takes four neighbours out of all lanes. Units lie in tiles of 64 rows as
// words of floats do (weight-dense.wgsl), and a unit has SCALES scales (one a block of 32 columns, or two of 16):
// scale s of unit u of row r is at (((r / 64) * units + u) * SCALES + s) * 64 + r % 64.
// Prepend `const SCALES` and `const SCALES_BINDING`, and a scale-*.wgsl.
alias WeightWord = vec4<u32>;

const TILE = 64u;

@group(0) @binding(SCALES_BINDING) var<storage, read> scales: array<ScaleWord>;

// Columns 4 word to 4 word + 3 of a row of `units` units.
fn weightAt(row: u32, word: u32, units: u32) -> vec4<f32> {
  let unit = (row / TILE) * units + word / 8u;
  let lane = row % TILE;
  let quants = (weights[unit * TILE + lane] >> vec4<u32>(4u * (word % 8u))) & vec4<u32>(15u);
  let scale = scaleUnpack(scales[(unit * SCALES + (word % 8u) * SCALES / 8u) * TILE + lane]);
  return fma(vec4<f32>(quants), vec4<f32>(scale.x), vec4<f32>(scale.y));
}

// What quants are multiplied by after linear-quant.wgsl made them floats.
const QUANT_FACTOR = 1.0;
