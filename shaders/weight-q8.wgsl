// Signed quants of eight bits: value = scale * q + min. A unit is 32 columns of one row in two words of 16: column
// 4i + l of a word is byte i of lane l. Word h of unit u of row r is at (((r / 64) * units + u) * 2 + h) * 64 + r % 64;
// scales as in weight-q4.wgsl. Prepend `const SCALES` and `const SCALES_BINDING`, and a scale-*.wgsl.
alias WeightWord = vec4<u32>;

const TILE = 64u;

@group(0) @binding(SCALES_BINDING) var<storage, read> scales: array<ScaleWord>;

// Columns 4 word to 4 word + 3 of a row of `units` units.
fn weightAt(row: u32, word: u32, units: u32) -> vec4<f32> {
  let unit = (row / TILE) * units + word / 8u;
  let lane = row % TILE;
  let bytes = bitcast<vec4<i32>>(weights[(unit * 2u + word % 8u / 4u) * TILE + lane]);
  let quants = (bytes << vec4<u32>(24u - 8u * (word % 4u))) >> vec4<u32>(24u);
  let scale = scaleUnpack(scales[(unit * SCALES + (word % 8u) * SCALES / 8u) * TILE + lane]);
  return fma(vec4<f32>(quants), vec4<f32>(scale.x), vec4<f32>(scale.y));
}

// What quants are multiplied by after linear-quant.wgsl made them floats.
const QUANT_FACTOR = 0x1p-24;
