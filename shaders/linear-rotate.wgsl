  // Query, key and value heads, of a matrix paired as src/gpu/pair-order.ts says: row d of a head's first half with row d
  // of its second. Query and key are rotated, key and value put where attention finds them; as rope.wgsl, whose query
  // and kv these are, number by number. extra0: heads of q, extra1: of k, extra2: numbers of half a head.
  let half = params.extra2;
  for (var i = 0u; i < ROWS / 2u * COLUMNS; i++) {
    let row = params.firstColumn + column + i % COLUMNS;
    let pair = pairOf(tile, lane + i / COLUMNS * TILE_THREADS);
    if (pair < params.outputs && row < count) {
      var x = vec2<f32>(totals[i], totals[i + ROWS / 2u * COLUMNS]);
      let head = pair / half;
      let d = pair % half;
      let position = stepPosition(row);
      if (head < params.extra0 + params.extra1) {
        let turn = table[position * half + d];
        x = vec2<f32>(fma(x.x, turn.x, -(x.y * turn.y)), fma(x.y, turn.x, x.x * turn.y));
      }
      if (head < params.extra0) {
        let to = (row * params.extra0 + head) * 2u * half + d;
        output[to] = x.x;
        output[to + half] = x.y;
      } else {
        let block = step[step[stepSequenceAt(row) + 4u] + position / BLOCK_TOKENS];
        let slot = (block * 2u * params.extra1 + head - params.extra0) * BLOCK_TOKENS + position % BLOCK_TOKENS;
        kv[slot * 2u * half + d] = x.x;
        kv[slot * 2u * half + d + half] = x.y;
      }
    }
  }
