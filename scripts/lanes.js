import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

/**
 * Projects that run beside the others: a browser's tests mostly wait, the others compute. Chaos and the Fleet view wait
 * most and have time for a second device's tests, so that their minutes are none of the whole; in the long tier chaos
 * computes too.
 * @param {boolean} long
 */
export function lanesOf(long) {
  return long
    ? [
        ['e2e', 'chaos', 'fleet'],
        ['unit', 'gpu', 'gpu-default-limits'],
      ]
    : [['e2e'], ['chaos', 'fleet', 'gpu-default-limits'], ['unit', 'gpu']];
}

/**
 * Runs one command per lane and says their lines as they come; alone, a command has the terminal to itself.
 * @param {string} program
 * @param {ReadonlyArray<{ args: string[], env: NodeJS.ProcessEnv }>} commands
 * @param {{ cwd: string, signal: AbortSignal }} options
 * @returns {Promise<number[]>} their exit codes
 */
export function runLanes(program, commands, { cwd, signal }) {
  const alone = commands.length === 1;
  return Promise.all(
    commands.map(
      ({ args, env }) =>
        new Promise((/** @type {(code: number) => void} */ resolve) => {
          const child = spawn(program, args, { cwd, env, stdio: alone ? 'inherit' : ['ignore', 'pipe', 'pipe'] });
          signal.addEventListener('abort', () => child.kill('SIGTERM'));
          if (!alone) {
            for (const name of /** @type {const} */ (['stdout', 'stderr'])) {
              const lines = /** @type {import('node:stream').Readable} */ (child[name]);
              createInterface({ input: lines }).on('line', (line) => process[name].write(`${line}\n`));
            }
          }
          child.on('error', (error) => {
            console.error(error.message);
            resolve(1);
          });
          // After its last line.
          child.on('close', (code) => resolve(code ?? 1));
        }),
    ),
  );
}
