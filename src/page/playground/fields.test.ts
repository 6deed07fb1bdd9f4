import { fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GenerateRequestSchema } from '../../contract/gen/sglang_scheduler_pb.ts';
import { normaliseRequest } from '../../contract/normalise-request.ts';
import { DEFAULT_FIELDS, FieldError, type Fields, requestOf } from './fields.ts';

const LIMITS = { vocabSize: 512, contextLength: 512, eosTokenIds: [2], hiddenSize: 64, servesPriority: false };
const request = (given: Partial<Fields>) => requestOf({ ...DEFAULT_FIELDS, ...given }, [1, 2, 3], 'r');

describe('requestOf', () => {
  it('takes every field', () => {
    const made = request({
      temperature: '0.5',
      topP: '0.9',
      topK: '40',
      minP: '0.1',
      frequencyPenalty: '0.25',
      presencePenalty: '-0.5',
      repetitionPenalty: '1.5',
      seed: '7',
      n: '2',
      maxNewTokens: '20',
      minNewTokens: '3',
      stop: 'a b\n\n\\n',
      stopTokenIds: '5, 6 7',
      ignoreEos: true,
      skipSpecialTokens: false,
      logitBias: '4=1.5\n 9 = -100 ',
      constraint: 'regex',
      alternatives: '3',
      rank: '1',
    });
    expect(made).toMatchObject({
      requestId: 'r',
      stream: true,
      returnLogprob: true,
      topLogprobsNum: 3,
      dataParallelRank: 1,
      tokenized: { inputIds: [1, 2, 3] },
      samplingParams: {
        temperature: 0.5,
        topP: 0.9,
        topK: 40,
        minP: 0.1,
        frequencyPenalty: 0.25,
        presencePenalty: -0.5,
        repetitionPenalty: 1.5,
        n: 2,
        maxNewTokens: 20,
        minNewTokens: 3,
        stop: ['a b', '\\n'],
        stopTokenIds: [5, 6, 7],
        ignoreEos: true,
        skipSpecialTokens: false,
        logitBias: { 4: 1.5, 9: -100 },
        constraint: { case: 'regex', value: '(yes|no)' },
        customParams: { seed: 7 },
      },
    });
  });

  it('asks for no logprobs, seed and rank where they are empty', () => {
    const made = request({ alternatives: '', seed: ' ', rank: '' });
    expect(made.returnLogprob).toBe(false);
    expect(made.dataParallelRank).toBeUndefined();
    expect(made.samplingParams?.customParams).toBeUndefined();
  });

  it('makes of its defaults what the relay takes, with each constraint', () => {
    for (const constraint of ['none', 'jsonSchema', 'regex', 'ebnfGrammar'] as const) {
      expect(() => normaliseRequest(request({ constraint }), LIMITS)).not.toThrow();
    }
  });

  it('names the field that is wrong', () => {
    const cases: [keyof Fields, string][] = [
      ['temperature', ''],
      ['temperature', '1e39'],
      ['topK', '1.5'],
      ['maxNewTokens', 'many'],
      ['seed', '0.5'],
      ['stopTokenIds', '4, x'],
      ['stopTokenIds', '4294967296'],
      ['logitBias', '4:1'],
      ['logitBias', '4=1e39'],
    ];
    for (const [field, text] of cases) {
      expect(() => request({ [field]: text }), `${field} ${text}`).toThrow(expect.objectContaining({ field }));
    }
    expect(() => request({ constraint: 'jsonSchema', jsonSchema: '{' })).toThrow(/no JSON/);
    expect(() => request({ constraint: 'regex', regex: ' ' })).toThrow(/empty/);
  });

  it('makes a message that can be sent, or names a field, whatever is typed', () => {
    const text = fc.oneof(fc.string({ maxLength: 12 }), fc.float().map(String), fc.integer().map(String));
    const typed = fc.record(
      Object.fromEntries(
        Object.entries(DEFAULT_FIELDS)
          .filter(([name, value]) => typeof value === 'string' && name !== 'constraint')
          .map(([name]) => [name, text]),
      ),
      { requiredKeys: [] },
    );
    const constraint = fc.constantFrom('none', 'jsonSchema', 'regex', 'ebnfGrammar', 'structuralTag');
    fc.assert(
      fc.property(typed, constraint, (given, constraint) => {
        try {
          const made = request({ ...given, constraint } as Partial<Fields>);
          fromBinary(GenerateRequestSchema, toBinary(GenerateRequestSchema, made));
        } catch (error) {
          if (!(error instanceof FieldError)) throw error;
          expect(DEFAULT_FIELDS).toHaveProperty(error.field);
        }
      }),
      { numRuns: 500 },
    );
  });
});
