// `npm run soak -- [--minutes N] [--seed N]`: e2e/soak.test.ts for as long as asked; default 30 minutes.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '30' }, seed: { type: 'string' } } });
if (!(Number(values.minutes) > 0)) throw new Error(`--minutes is ${values.minutes}, not a time`);

const root = fileURLToPath(new URL('..', import.meta.url));
const child = spawn(process.execPath, ['scripts/test.js', '--project', 'e2e', 'e2e/soak.test.ts'], {
  cwd: root,
  stdio: 'inherit',
  env: {
    ...process.env,
    SHOAL_SOAK_MINUTES: values.minutes,
    ...(values.seed === undefined ? {} : { SHOAL_SOAK_SEED: values.seed }),
  },
});
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.on(signal, () => child.kill(signal));
child.on('exit', (status) => {
  process.exitCode = status ?? 1;
});
