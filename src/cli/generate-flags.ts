import { fromJson, type JsonObject } from '@bufbuild/protobuf';
import { type Timestamp, TimestampSchema } from '@bufbuild/protobuf/wkt';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  DisaggregatedParamsSchema,
  type GenerateRequest,
  MultimodalInputsSchema,
  type SamplingParams,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { messageParser, parseRequest } from './request-json.ts';
import {
  addText,
  parseBias,
  parseFloat32,
  parseFloats,
  parseIds,
  parseInteger,
  parseJson,
  parseText,
} from './sampling-values.ts';
import { type HostPort, parseCount, parseSeed, parseTemperature } from './values.ts';

type Given<M> = { -readonly [K in keyof Omit<M, '$typeName' | '$unknown'>]?: M[K] };

/** The flags of `generate` as commander gives them, under the names of the proto's fields; what wasn't given is unset. */
export interface GenerateFlags
  extends Given<Omit<GenerateRequest, 'tokenized' | 'samplingParams'>>,
    Given<Omit<SamplingParams, 'constraint' | 'noStopTrim'>> {
  readonly relay: HostPort;
  readonly json: boolean;
  readonly request?: GenerateRequest;
  readonly prompt?: string;
  readonly inputIds?: number[];
  readonly regex?: string;
  readonly jsonSchema?: string;
  readonly ebnfGrammar?: string;
  readonly structuralTag?: string;
  /** Of --no-stop-trim: false. */
  readonly stopTrim?: boolean;
  /** Both are keys of custom_params. */
  readonly seed?: number;
  readonly priority?: number;
}

/** The attributes of flags of which a request has one at most. */
export const CONSTRAINTS = ['regex', 'jsonSchema', 'ebnfGrammar', 'structuralTag'] as const;

/** A flag for each field of GenerateRequest and of SamplingParams. */
export function withGenerateFlags(command: Command): Command {
  const add = (group: string) => {
    const value = (flags: string, description: string, parse?: (text: string, before: never) => unknown) => {
      const option = new Option(flags, description).helpGroup(group);
      if (parse) option.argParser(parse as (text: string) => unknown);
      command.addOption(option);
      return option;
    };
    /** A boolean: --x and --no-x, so that a file's value can be overridden both ways; help shows the one named. */
    const either = (flags: string, description: string) => {
      const names = flags.split(', ').map((flag) => flag.replace(/^--(no-)?/, ''));
      const shown = new Option(flags, description).helpGroup(group);
      const named = (start: string) => names.map((name) => start + name).join(', ');
      const positive = shown.negate ? new Option(named('--')).hideHelp() : shown;
      const negative = shown.negate ? shown : new Option(named('--no-')).hideHelp();
      // In this order neither has a default.
      command.addOption(positive).addOption(negative);
    };
    return { value, either };
  };

  const input = add('Input:');
  input.value('--prompt <text>', 'what the text begins with; BOS goes in front');
  input.value('--input-ids <ids>', 'token ids in its place, such as 1,403,407', parseIds).conflicts('prompt');
  input.value('--input-embeds <@file>', 'embeddings of those tokens: a JSON array, or one of rows', parseFloats);
  input.value('--request <file>', "a whole GenerateRequest in protobuf's JSON; -: standard input", parseRequest);

  const sampling = add('Sampling:');
  sampling.value(
    '--temperature <t>',
    'randomness; 0 takes the likeliest token each time (default: 1)',
    parseTemperature,
  );
  sampling.value('--top-p <p>', 'from the likeliest tokens that make up this share', parseFloat32);
  sampling.value('--top-k <k>', 'from so many likeliest tokens; -1: all', parseInteger);
  sampling.value('--min-p <p>', 'from tokens at least this share as likely as the likeliest', parseFloat32);
  sampling.value('--frequency-penalty <f>', 'against tokens, by how often they came', parseFloat32);
  sampling.value('--presence-penalty <p>', 'against tokens that came', parseFloat32);
  sampling.value('--repetition-penalty <r>', 'divides the scores of tokens that came; 1: none', parseFloat32);
  sampling.value('--logit-bias <id=value>', "added to a token's score; repeatable", parseBias);
  sampling.value('--seed <s>', 'makes a random completion repeatable', parseSeed);
  sampling.value('--n <n>', 'how many samples', parseCount);

  const stops = add('Length and stops:');
  stops.value('--max-new-tokens <n>', 'how many tokens to make at most (default: what fits)', parseCount);
  stops.value('--min-new-tokens <n>', 'no stop token before so many', parseCount);
  stops.value('--stop <text>', 'ends where the text comes up; repeatable', addText);
  stops.value('--stop-token-id, --stop-token-ids <ids>', 'end at these tokens; repeatable', parseIds);
  stops.either('--ignore-eos', "go on after the model's own end, and after stop tokens");
  stops.either('--no-stop-trim', 'as in the proto: ids are never trimmed anyway');

  const structure = add('Structured output (one of them; TEXT, or @FILE):');
  structure.value('--json-schema <text>', 'JSON that the schema describes', parseText);
  structure.value('--regex <text>', 'text that the expression matches', parseText);
  structure.value('--ebnf, --ebnf-grammar <text>', 'text of the grammar', parseText);
  structure.value('--structural-tag <text>', 'JSON between tags', parseText);
  for (const option of command.options) {
    const own = option.attributeName();
    const others = CONSTRAINTS.filter((each) => each !== own);
    if (others.length < CONSTRAINTS.length) option.conflicts(others);
  }

  const returned = add('Returned (--json shows it):');
  returned.either('--logprobs, --return-logprob', "each token's logprob");
  const implied = { returnLogprob: true };
  returned
    .value('--top-logprobs, --top-logprobs-num <n>', 'the likeliest n tokens at each place', parseCount)
    .implies(implied);
  returned
    .value('--logprob-start-len <n>', "the prompt's logprobs too, from this place on; -1: none", parseInteger)
    .implies(implied);
  returned.value('--token-ids-logprob <ids>', "these tokens' logprobs at each place", parseIds).implies(implied);
  returned.either('--return-hidden-states', 'what the last layer computed for each token');
  returned.either('--no-stream', 'all at once, at the end');
  returned.value('--stream-interval <n>', 'so many tokens at a time', parseCount);
  returned.either('--no-skip-special-tokens', 'show special tokens as text, and look for stops in it');
  returned.either('--no-spaces-between-special-tokens', 'as in the proto: without effect');

  const request = add('Request:');
  request.value('--request-id <id>', 'its name, for aborts');
  request.value('--data-parallel-rank <rank>', 'the node that serves it', parseCount);
  request.value('--priority <n>', 'higher ones go first under --schedule-policy priority', parseInteger);
  request.value('--custom-params <json>', 'where seed and priority go', parseObject);
  request.value('--timestamp <time>', 'when it was made, for metrics: 2026-01-31T12:00:00Z', parseTimestamp);
  request.either('--log-metrics', 'as in the proto: all are counted anyway');
  request.value('--lora-id <id>', 'an adapter');
  request.value('--mm-inputs <json>', 'MultimodalInputs; JSON, or @FILE', messageParser(MultimodalInputsSchema));
  request.value(
    '--disaggregated-params <json>',
    'DisaggregatedParams; JSON, or @FILE',
    messageParser(DisaggregatedParamsSchema),
  );
  request.value('--custom-logit-processor <text>', 'a serialised one; TEXT, or @FILE', parseText);
  request.either('--require-reasoning', 'count reasoning apart');
  return command;
}

function parseObject(text: string): JsonObject {
  const value = parseJson(text);
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new InvalidArgumentError('it must be a JSON object.');
  }
  return value as JsonObject;
}

function parseTimestamp(text: string): Timestamp {
  try {
    return fromJson(TimestampSchema, text);
  } catch {
    throw new InvalidArgumentError('it must be a time such as 2026-01-31T12:00:00Z.');
  }
}
