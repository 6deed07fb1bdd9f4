  // output[c, outputAt + r] = sum.
  for (var i = 0u; i < ROWS * COLUMNS; i++) {
    let row = tile * TILE + lane + i / COLUMNS * TILE_THREADS;
    let at = column + i % COLUMNS;
    if (row < params.outputs && params.firstColumn + at < count) {
      output[at * params.outputStride + params.outputAt + row] = totals[i];
    }
  }
