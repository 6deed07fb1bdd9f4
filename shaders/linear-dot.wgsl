        // Of quantised formats by quantised columns: a unit of 32 columns of K, whose products are summed as integers:
        // sum of (scale q + min) x = scale * factor * sum of q xq + min * sum of x.
        let at = tile * params.words + word;
        #for c COLUMNS
        let x$c_at = (tileAt + local.y * COLUMNS + $cu) * COLUMN_STRIDE + filled * UNIT_VECTORS;
        let x$c_0 = inputTile[x$c_at];
        let x$c_1 = inputTile[x$c_at + 1u];
        let t$c = tileScales[(tileAt + local.y * COLUMNS + $cu) * FILL_UNITS + filled];
        #end
        #for r ROWS
        {
          #if Q4
          let w = weights[at * TILE + lane + $ru * TILE_THREADS];
          let q0 = w & vec4<u32>(0x0f0f0f0f);
          let q1 = (w >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0f);
          #end
          #if Q8
          let q0 = weights[at * 2u * TILE + lane + $ru * TILE_THREADS];
          let q1 = weights[(at * 2u + 1u) * TILE + lane + $ru * TILE_THREADS];
          #end
          #if BLOCKS_OF_32
          let scale = scaleUnpack(scales[at * TILE + lane + $ru * TILE_THREADS]);
          #for c COLUMNS
          let n$c = f32(dotBytes(q0, x$c_0) + dotBytes(q1, x$c_1));
          s$r_$c = fma(n$c, scale.x * t$c.x, fma(t$c.w, scale.y, s$r_$c));
          #end
          #end
          #if BLOCKS_OF_16
          let low = scaleUnpack(scales[at * 2u * TILE + lane + $ru * TILE_THREADS]);
          let high = scaleUnpack(scales[(at * 2u + 1u) * TILE + lane + $ru * TILE_THREADS]);
          // Of q4 the first two bytes of each word are of columns below 16.
          let below = vec4<u32>(0xffff);
          #for c COLUMNS
          #if Q4
          let n$c_0 = f32(dotBytes(q0 & below, x$c_0) + dotBytes(q1 & below, x$c_1));
          let n$c_1 = f32(dotBytes(q0 & ~below, x$c_0) + dotBytes(q1 & ~below, x$c_1));
          #end
          #if Q8
          let n$c_0 = f32(dotBytes(q0, x$c_0));
          let n$c_1 = f32(dotBytes(q1, x$c_1));
          #end
          s$r_$c = fma(n$c_0, low.x * t$c.x, fma(t$c.y, low.y, s$r_$c));
          s$r_$c = fma(n$c_1, high.x * t$c.x, fma(t$c.z, high.y, s$r_$c));
          #end
          #end
        }
        #end
