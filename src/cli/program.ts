import { Command, CommanderError, Option } from 'commander';
import { gatewayCommandRun, nodeCommand, relayCommand, startCommand } from './commands.ts';
import { type EmbedFlags, embed } from './embed.ts';
import { CliError } from './errors.ts';
import { generate } from './generate.ts';
import { type GenerateFlags, withGenerateFlags } from './generate-flags.ts';
import { PRECISIONS, SPECULATION_MODES, TUNE_MODES } from './launch-browser.ts';
import { loads } from './loads.ts';
import { bundledModel } from './paths.ts';
import { withConfig } from './relay-config.ts';
import { many, withTrustFlags } from './trust-flags.ts';
import {
  parseCount,
  parseDuration,
  parseGeneration,
  parseHostPort,
  parsePort,
  parsePositive,
  parsePositiveDuration,
  parseRanks,
  parseShare,
  parseWebUrl,
} from './values.ts';

/** What a command line came to: an exit code, and a sentence where it failed. */
export interface Outcome {
  readonly code: number;
  readonly message?: string;
}

interface Output {
  readonly write: (text: string) => void;
  readonly writeError: (text: string) => void;
}

const RELAY_DEFAULT = { host: '127.0.0.1', port: 30_001 };

/** Runs a command line (without node and script); `version` is the package's. */
export async function runProgram(args: readonly string[], version: string, output: Output): Promise<Outcome> {
  let code = 0;
  const program = buildProgram(version, output, (result) => {
    code = result;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return { code };
  } catch (error) {
    // Help and version have printed themselves.
    if (error instanceof CommanderError) return { code: error.exitCode === 0 ? 0 : 2 };
    if (error instanceof CliError) return { code: error.exitCode, message: error.message };
    throw error;
  }
}

function buildProgram(version: string, output: Output, exit: (code: number) => void): Command {
  const program = new Command('shoal')
    .description('Serves language models from browser tabs to an SGLang gateway.')
    .version(version)
    .exitOverride()
    .configureOutput({
      writeOut: output.write,
      writeErr: output.writeError,
      outputError: (text, write) => write(`${oneSentence(text)}\n`),
    });
  program.configureHelp({ showGlobalOptions: false });

  withBrowserFlags(
    withRelayFlags(program.command('start').description('Start the relay, and a browser that serves its model.')),
  ).action(async (flags) => exit(await startCommand(flags)));

  withRelayFlags(
    program.command('relay').description('Start the relay alone; open its page in a browser to serve.'),
  ).action(async (flags) => exit(await relayCommand(flags)));

  withBrowserFlags(
    program
      .command('node')
      .description('Open a browser that serves for a relay.')
      .requiredOption('--relay <url>', "the relay's page, such as http://127.0.0.1:8080", parseWebUrl)
      .addOption(new Option('--node-token <token>', 'where the relay asks for one').env('SHOAL_NODE_TOKEN')),
  ).action(async (flags) => exit(await nodeCommand(flags)));

  withGenerateFlags(
    withRelayAddress(
      program
        .command('generate')
        .description('Complete a prompt: streams the prompt and what the model makes of it.')
        .option('--json', 'print the whole result as a last line', false),
    ),
  ).action(async (flags: GenerateFlags, command: Command) => {
    if (flags.prompt === undefined && flags.inputIds === undefined && flags.request === undefined) {
      command.error('error: one of --prompt, --input-ids and --request is needed.');
    }
    await untilStopped((signal) => generate(flags, output.write, signal));
  });

  withRelayAddress(
    program
      .command('embed')
      .description('Embed texts: prints the vector of one, how alike several are, or what a classifier says of them.')
      .argument('<texts...>', 'one or more, each in quotes')
      .option('--pairs', 'score pairs of texts, one after the other, with a cross-encoder', false)
      .option('--json', 'print the vectors as JSON', false),
  ).action((texts: string[], flags: EmbedFlags) => untilStopped((signal) => embed(texts, flags, output.write, signal)));

  withRelayAddress(
    program
      .command('loads')
      .description("Show each node's load.")
      .option('--json', "print the relay's answer as JSON", false),
  ).action((flags) => loads(flags.relay, flags.json, output.write));

  withRelayAddress(
    program
      .command('gateway')
      .description('Install an SGLang gateway with pip in .venv/ and start it in front of the relay.')
      .argument('[flags...]', "the gateway's own flags, after --")
      .addOption(new Option('--generation <g>', '2: smg; 1: sglang-router').argParser(parseGeneration).default(2))
      .option('--host <host>', 'where it listens', '127.0.0.1')
      .option('--port <port>', 'where it listens; 0 takes a free port', parsePort, 30_000),
  ).action(async (extra, flags) => exit(await gatewayCommandRun(flags, extra)));

  return program;
}

/** Runs what a Ctrl-C ends early. */
async function untilStopped(run: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  const signals = ['SIGINT', 'SIGTERM'] as const;
  for (const signal of signals) process.once(signal, onSignal);
  try {
    await run(stop.signal);
  } finally {
    for (const signal of signals) process.off(signal, onSignal);
  }
}

function withRelayFlags(command: Command): Command {
  command
    .addOption(
      new Option('--model <model>', 'a folder, a .gguf file, or hf:owner/name[@revision][/file.gguf]').default(
        bundledModel,
        'the bundled stories260K',
      ),
    )
    .addOption(
      new Option('--quant <format>', 'how nodes quantise the weights of safetensors; default: not at all').choices([
        'q8',
        'q4',
      ]),
    )
    .addOption(
      many(
        '--model-url <url>',
        "a folder with the model's files that nodes try before the relay, or hub: where a hf: model came from",
      ),
    )
    .addOption(many('--model-cdn <origin>', 'an origin that --model-url redirects to, such as https://*.hf.co'))
    .option('--port <port>', 'where gateways reach the relay (gRPC); 0 takes a free port', parsePort, 30_001)
    .option('--web-port <port>', 'where browsers reach it; 0 takes a free port', parsePort, 8080)
    .addOption(duration('--lease <time>', 'how long a silent node keeps its session', '15s', parsePositiveDuration))
    .addOption(duration('--heartbeat <time>', 'how often node and relay speak', '3s', parsePositiveDuration))
    .addOption(duration('--start-wait <time>', 'how long a request waits for a first node', '20s', parseDuration))
    .addOption(duration('--rejoin-wait <time>', 'how long a lost request waits for another node', '30s', parseDuration))
    .addOption(
      duration(
        '--drain-wait <time>',
        'how long work at a leaving node goes on before another takes it',
        '10s',
        parseDuration,
      ),
    )
    .addOption(
      duration('--update-wait <time>', 'how long what runs goes on before UpdateWeights ends it', '60s', parseDuration),
    )
    .addOption(
      duration(
        '--token-stall <time>',
        'without a token for so long a request moves to another node',
        '2m',
        parsePositiveDuration,
      ),
    )
    .addOption(
      duration('--queue-wait <time>', 'how long a request waits for room at a node', '2m', parsePositiveDuration),
    )
    .addOption(duration('--first-token-wait <time>', 'how long a first token may take', '5m', parsePositiveDuration))
    .addOption(duration('--request-limit <time>', 'how long a whole request may take', '60m', parsePositiveDuration))
    .addOption(
      duration(
        '--close-wait <time>',
        'how long what runs may go on once the relay is told to end',
        '3s',
        parseDuration,
      ),
    )
    .option('--ranks <n>', 'fixes the number of nodes, a data-parallel rank each (default: any number)', parseRanks)
    .option('--max-queued <n>', 'how many requests wait at most; 0: none', parseCount, 1024)
    .addOption(
      new Option('--schedule-policy <policy>', 'which waiting request is next: longest prefix, first come, or priority')
        .choices(['lpm', 'fcfs', 'priority'])
        .default('lpm'),
    )
    .option('--audit-share <share>', 'part of the samples that a second node scores; 0: none', parseShare, 0.02)
    .addOption(many('--lora <name=folder>', 'a LoRA adapter to begin with, in the form of PEFT'))
    .option('--max-loras <n>', 'LoRA adapters that nodes keep room for; at least those of --lora', parseCount, 0)
    .option('--max-lora-rank <n>', 'the highest rank that one may have', parsePositive, 64);
  return withConfig(withTrustFlags(command));
}

function duration(flags: string, description: string, value: string, parse: (text: string) => number): Option {
  return new Option(flags, description).argParser(parse).default(parse(value), value);
}

function withBrowserFlags(command: Command): Command {
  return command
    .option('--headless', 'show no window, even where there is a display')
    .option('--software-gpu', 'use the software adapter, even where there is a GPU')
    .addOption(
      new Option('--tune <mode>', 'whether the node tries and times kernels at its first start on a GPU').choices([
        ...TUNE_MODES,
      ]),
    )
    .addOption(
      new Option('--precision <precision>', 'fast: products in halves or 8-bit integers, where that is faster').choices(
        [...PRECISIONS],
      ),
    )
    .addOption(
      new Option('--speculation <mode>', 'whether the node drafts tokens, where that wins (default: auto)').choices([
        ...SPECULATION_MODES,
      ]),
    )
    .option('--kernel <name>', 'make all products of one path or variant, for looking for faults');
}

function withRelayAddress(command: Command): Command {
  return command.addOption(
    new Option('--relay <host:port>', "the relay's gRPC address")
      .argParser(parseHostPort)
      .default(RELAY_DEFAULT, `${RELAY_DEFAULT.host}:${RELAY_DEFAULT.port}`),
  );
}

/** commander's message and its suggestion as one sentence. */
function oneSentence(text: string): string {
  return text
    .trim()
    .replace(/\s*\n\s*/g, ' ')
    .replace(' is invalid. ', ' is invalid: ');
}
