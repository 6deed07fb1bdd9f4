      // Of float formats, four columns of K. `at` is the word of the thread's first row.
      let at = (tile * params.words + word) * TILE + lane;
      #for c COLUMNS
      let x$c = input[input$c + word];
      #end
      #for r ROWS
      let w$r = weightUnpack(weights[at + $ru * TILE_THREADS]);
      #for c COLUMNS
      s$r_$c = fma(w$r, x$c, s$r_$c);
      #end
      #end
