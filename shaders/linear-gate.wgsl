  // output[c, i] = gate / (1 + exp(-gate)) * up, of a matrix paired as src/gpu/pair-order.ts says: gate row i with up row i.
  // exp's argument is bounded, as in swiglu.wgsl.
  for (var i = 0u; i < ROWS / 2u * COLUMNS; i++) {
    let at = column + i % COLUMNS;
    let pair = pairOf(tile, lane + i / COLUMNS * TILE_THREADS);
    if (pair < params.outputs && params.firstColumn + at < count) {
      let gate = totals[i];
      let up = totals[i + ROWS / 2u * COLUMNS];
      var power = -gate;
      if (power > 80.0) {
        power = 80.0;
      }
      output[at * params.outputStride + pair] = gate / (1.0 + exp(power)) * up;
    }
  }
