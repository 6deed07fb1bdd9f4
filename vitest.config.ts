import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'scripts/**/*.test.ts'],
          exclude: ['src/**/*.gpu.test.ts'],
          pool: 'forks',
        },
      },
      {
        test: {
          name: 'gpu',
          include: ['src/**/*.gpu.test.ts'],
          pool: 'forks',
          maxWorkers: 1,
          testTimeout: 60_000,
        },
      },
    ],
  },
});
