import { defineConfig } from 'vite';

// The Node side: the `shoal` command with the relay, and the tools that the test launcher needs. Packages stay outside.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: 'dist/node',
    target: 'node20',
    emptyOutDir: true,
    ssr: true,
    minify: false,
    rolldownOptions: {
      input: {
        shoal: 'src/cli/main.ts',
        tools: 'src/cli/tools.ts',
        // A thread's entry, which the relay finds beside itself.
        'tokenizer-worker': 'src/relay/model/tokenizer-worker.ts',
      },
      output: { entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' },
    },
  },
});
