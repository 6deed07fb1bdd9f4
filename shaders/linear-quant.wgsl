      // Of quantised formats, a unit of 32 columns of K: sum of (scale q + min) x = scale * sum of q x + min * sum of x,
      // block by block. Quants become floats where they lie, 16^i or 2^24 times too large; powers of two cost no digit,
      // so x or the scale takes them back. With QUADS four threads load a word of x each and hand it to the others: all have
      // the same columns. With HALF the products are halves of x over a power of two by q, of q4 by q - 8: a block's sum
      // stays below 8 * 128, and what q - 8 leaves out is in the minimum.
      let at = tile * params.words + word;
      #if Q4
      #for r ROWS
      let w$r = bitcast<vec4<i32>>(weights[at * TILE + lane + $ru * TILE_THREADS]);
      #end
      #end
      #for c COLUMNS
      #if ALONE
      let column$c = input$c + word * 8u;
      #end
      #if SHARED
      let column$c = (tileAt + local.y * COLUMNS + $cu) * COLUMN_STRIDE + filled * 8u;
      #end
      #if HALF
      let t$c = tileScales[(tileAt + local.y * COLUMNS + $cu) * FILL_UNITS + filled];
      #end
      #if QUADS
      let v$c_0 = input[column$c + quadLane];
      let v$c_1 = input[column$c + 4u + quadLane];
      #end
      #end
      #if BLOCKS_OF_32
      #for r ROWS
      #for c COLUMNS
      var a$r_$c = Products();
      #end
      #end
      #if EXACT
      #for c COLUMNS
      var t$c = vec4<f32>();
      #end
      #end
      #end
      // Both halves of the unit stand here: a loop would carry all sums, which costs SwiftShader as much as they do.
      #for h 2
      {
        let half = $hu;
        #for c COLUMNS
        #for i 4
        #if QUADS
        let x$c_$i = quadBroadcast(v$c_$h, $iu);
        #end
        #if SINGLES
        let x$c_$i = input[column$c + 4u * half + $iu];
        #end
        #if SHARED
        let x$c_$i = inputTile[column$c + 4u * half + $iu];
        #end
        #end
        #if EXACT
        #if Q4
        let y$c_0 = x$c_0;
        let y$c_1 = x$c_1 * 0x1p-4;
        let y$c_2 = x$c_2 * 0x1p-8;
        let y$c_3 = x$c_3 * 0x1p-12;
        #end
        #if Q8
        #for i 4
        let y$c_$i = x$c_$i;
        #end
        #end
        #end
        #if HALF
        #for i 4
        let y$c_$i = x$c_$i;
        #end
        #end
        #end
        #if BLOCKS_OF_16
        #for r ROWS
        #for c COLUMNS
        var a$r_$c = Products();
        #end
        #end
        #if EXACT
        #for c COLUMNS
        var t$c = vec4<f32>();
        #end
        #end
        #end
        #if EXACT
        #for c COLUMNS
        t$c += (x$c_0 + x$c_1) + (x$c_2 + x$c_3);
        #if BLOCKS_OF_16
        #if CHAINS_OF_4
        let u$c = t$c;
        #end
        #if ONE_CHAIN
        let u$c = (t$c.x + t$c.y) + (t$c.z + t$c.w);
        #end
        #end
        #end
        #end
        #for r ROWS
        {
          #if Q4
          let q = w$r >> vec4<u32>(16u * half);
          #if EXACT
          let q0 = vec4<f32>(q & vec4<i32>(0xf));
          let q1 = vec4<f32>(q & vec4<i32>(0xf0));
          let q2 = vec4<f32>(q & vec4<i32>(0xf00));
          let q3 = vec4<f32>(q & vec4<i32>(0xf000));
          #end
          #if HALF
          #for i 4
          let q$i = vec4<Half>(((q >> vec4<u32>(4u * $iu)) & vec4<i32>(0xf)) - vec4<i32>(8));
          #end
          #end
          #end
          #if Q8
          let q = bitcast<vec4<i32>>(weights[(at * 2u + half) * TILE + lane + $ru * TILE_THREADS]);
          #if EXACT
          let q0 = vec4<f32>(q << vec4<u32>(24u));
          let q1 = vec4<f32>((q << vec4<u32>(16u)) & vec4<i32>(-0x1000000));
          let q2 = vec4<f32>((q << vec4<u32>(8u)) & vec4<i32>(-0x1000000));
          let q3 = vec4<f32>(q & vec4<i32>(-0x1000000));
          #end
          #if HALF
          #for i 4
          let q$i = vec4<Half>((q << vec4<u32>(24u - 8u * $iu)) >> vec4<u32>(24u));
          #end
          #end
          #end
          #for c COLUMNS
          #if VECTORS
          a$r_$c = fma(q3, y$c_3, fma(q2, y$c_2, fma(q1, y$c_1, fma(q0, y$c_0, a$r_$c))));
          #end
          #if SCALARS
          #for i 4
          a$r_$c = fma(q$i.w, y$c_$i.w, fma(q$i.z, y$c_$i.z, fma(q$i.y, y$c_$i.y, fma(q$i.x, y$c_$i.x, a$r_$c))));
          #end
          #end
          #end
          #if BLOCKS_OF_16
          let scale = scaleUnpack(scales[(at * 2u + half) * TILE + lane + $ru * TILE_THREADS]);
          #for c COLUMNS
          #if EXACT
          s$r_$c = fma(a$r_$c, Sum(scale.x * QUANT_FACTOR), fma(u$c, Sum(scale.y), s$r_$c));
          #end
          #if HALF
          s$r_$c = halfSum(a$r_$c, scale, t$c.x, t$c[1u + half], s$r_$c);
          #end
          #end
          #end
        }
        #end
      }
      #end
      #if BLOCKS_OF_32
      #if EXACT
      #for c COLUMNS
        #if CHAINS_OF_4
        let u$c = t$c;
        #end
        #if ONE_CHAIN
        let u$c = (t$c.x + t$c.y) + (t$c.z + t$c.w);
        #end
      #end
      #end
      #for r ROWS
      {
        let scale = scaleUnpack(scales[at * TILE + lane + $ru * TILE_THREADS]);
        #for c COLUMNS
        #if EXACT
        s$r_$c = fma(a$r_$c, Sum(scale.x * QUANT_FACTOR), fma(u$c, Sum(scale.y), s$r_$c));
        #end
        #if HALF
        s$r_$c = halfSum(a$r_$c, scale, t$c.x, t$c.w, s$r_$c);
        #end
        #end
      }
      #end
      #end
