  // output[c, outputAt + r] += sum: a product that goes back into the residual stream. Where EMITS, it leaves what a NORMED
  // product asks for, too: scaled[c, row] = gain[row] * output[c, row], and of each thread the sum of its rows' squares:
  // squares[c, 8 tile + lane], rows lane, lane + 8 … of the tile in this order, so ROWS is 8.
  for (var c = 0u; c < COLUMNS; c++) {
    let at = column + c;
    if (params.firstColumn + at < count) {
      #if EMITS
      var sum = 0.0;
      #end
      for (var r = 0u; r < ROWS; r++) {
        let row = tile * TILE + lane + r * TILE_THREADS;
        if (row < params.outputs) {
          let to = at * params.outputStride + params.outputAt + row;
          let x = output[to] + totals[r * COLUMNS + c];
          output[to] = x;
          #if EMITS
          scaled[to] = x * gain[params.outputAt + row];
          sum = fma(x, x, sum);
          #end
        }
      }
      #if EMITS
      squaresOut[at * params.squaresWords * 4u + params.outputAt / 8u + tile * 8u + lane] = sum;
      #end
    }
  }
