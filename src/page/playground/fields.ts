import { create } from '@bufbuild/protobuf';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  SamplingParamsSchema,
} from '../../contract/gen/sglang_scheduler_pb.ts';

/** What the forms hold, as typed. Numbers are texts, so that what is being typed stays as it is. */
export interface Fields {
  readonly temperature: string;
  readonly topP: string;
  readonly topK: string;
  readonly minP: string;
  readonly frequencyPenalty: string;
  readonly presencePenalty: string;
  readonly repetitionPenalty: string;
  /** Empty: a random one. */
  readonly seed: string;
  readonly n: string;
  readonly maxNewTokens: string;
  readonly minNewTokens: string;
  /** One a line. */
  readonly stop: string;
  /** Separated by commas or spaces. */
  readonly stopTokenIds: string;
  readonly ignoreEos: boolean;
  readonly skipSpecialTokens: boolean;
  /** `ID=VALUE`, one a line. */
  readonly logitBias: string;
  readonly constraint: 'none' | ConstraintName;
  readonly jsonSchema: string;
  readonly regex: string;
  readonly ebnfGrammar: string;
  readonly structuralTag: string;
  /** How many alternatives of each token are asked for; empty: no logprobs. */
  readonly alternatives: string;
  /** Of the node that is to answer; empty: any. */
  readonly rank: string;
}

export type ConstraintName = 'jsonSchema' | 'regex' | 'ebnfGrammar' | 'structuralTag';

/** The contract's own, but for a length that ends. */
export const DEFAULT_FIELDS: Fields = {
  temperature: '1',
  topP: '1',
  topK: '-1',
  minP: '0',
  frequencyPenalty: '0',
  presencePenalty: '0',
  repetitionPenalty: '1',
  seed: '',
  n: '1',
  maxNewTokens: '256',
  minNewTokens: '0',
  stop: '',
  stopTokenIds: '',
  ignoreEos: false,
  skipSpecialTokens: true,
  logitBias: '',
  constraint: 'none',
  jsonSchema:
    '{\n  "type": "object",\n  "properties": {\n    "name": { "type": "string" },\n    "age": { "type": "integer" }\n  },\n  "required": ["name", "age"]\n}',
  regex: '(yes|no)',
  ebnfGrammar: 'root ::= "yes" | "no"',
  structuralTag: '',
  alternatives: '5',
  rank: '',
};

/** A field that can't be sent as it is. */
export class FieldError extends Error {
  readonly field: keyof Fields;

  constructor(field: keyof Fields, message: string) {
    super(message);
    this.name = 'FieldError';
    this.field = field;
  }
}

/** The request for a prompt. Throws FieldError; ranges are for the relay to judge, which names the field. */
export function requestOf(fields: Fields, inputIds: readonly number[], requestId: string): GenerateRequest {
  const number = (field: keyof Fields) => {
    const text = String(fields[field]).trim();
    const value = Number(text);
    if (text === '' || !Number.isFinite(Math.fround(value))) throw new FieldError(field, 'it must be a number');
    return value;
  };
  const integer = (field: keyof Fields) => {
    const value = number(field);
    if (!Number.isInteger(value) || Math.abs(value) > 0x7fff_ffff) {
      throw new FieldError(field, 'it must be a whole number');
    }
    return value;
  };
  const optional = (field: keyof Fields) => (String(fields[field]).trim() === '' ? undefined : integer(field));
  const seed = optional('seed');
  const alternatives = optional('alternatives');
  const dataParallelRank = optional('rank');
  const name = fields.constraint;
  return create(GenerateRequestSchema, {
    requestId,
    stream: true,
    tokenized: { inputIds: [...inputIds] },
    returnLogprob: alternatives !== undefined,
    topLogprobsNum: alternatives ?? 0,
    logprobStartLen: -1,
    ...(dataParallelRank === undefined ? {} : { dataParallelRank }),
    samplingParams: create(SamplingParamsSchema, {
      temperature: number('temperature'),
      topP: number('topP'),
      topK: integer('topK'),
      minP: number('minP'),
      frequencyPenalty: number('frequencyPenalty'),
      presencePenalty: number('presencePenalty'),
      repetitionPenalty: number('repetitionPenalty'),
      n: integer('n'),
      maxNewTokens: integer('maxNewTokens'),
      minNewTokens: integer('minNewTokens'),
      stop: fields.stop.split('\n').filter((line) => line !== ''),
      stopTokenIds: idsIn(fields.stopTokenIds),
      ignoreEos: fields.ignoreEos,
      skipSpecialTokens: fields.skipSpecialTokens,
      spacesBetweenSpecialTokens: true,
      logitBias: biasIn(fields.logitBias),
      ...(name === 'none' ? {} : { constraint: { case: name, value: constraintIn(name, fields[name]) } }),
      ...(seed === undefined ? {} : { customParams: { seed } }),
    }),
  });
}

const MAX_ID = 0xffff_ffff;

function idsIn(text: string): number[] {
  return text
    .split(/[\s,]+/)
    .filter((word) => word !== '')
    .map((word) => {
      if (!/^\d{1,10}$/.test(word) || Number(word) > MAX_ID) {
        throw new FieldError('stopTokenIds', `${word} is no token id`);
      }
      return Number(word);
    });
}

function biasIn(text: string): Record<string, number> {
  const bias: Record<string, number> = {};
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const match = /^\s*(\d{1,10})\s*=\s*(\S+)\s*$/.exec(line);
    const value = match ? Math.fround(Number(match[2])) : Number.NaN;
    if (!match || Number(match[1]) > MAX_ID || !Number.isFinite(value)) {
      throw new FieldError('logitBias', `${line.trim()} is not ID=VALUE, such as 426=-100`);
    }
    bias[String(Number(match[1]))] = value;
  }
  return bias;
}

function constraintIn(name: ConstraintName, text: string): string {
  if (text.trim() === '') throw new FieldError(name, 'it is empty');
  if (name === 'jsonSchema' || name === 'structuralTag') {
    try {
      JSON.parse(text);
    } catch (error) {
      throw new FieldError(name, `that is no JSON: ${(error as Error).message}`);
    }
  }
  return text;
}
