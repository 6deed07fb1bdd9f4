import { create, type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import fc from 'fast-check';
import {
  DisaggregatedParamsSchema,
  type GenerateRequest,
  GenerateRequestSchema,
  MultimodalInputsSchema,
  type SamplingParams,
  SamplingParamsSchema,
  TokenizedInputSchema,
} from '../gen/sglang_scheduler_pb.ts';
import type { ModelLimits } from '../normalised-request.ts';

const FLOAT_MAX = 3.4028234663852886e38;

/** What requests are made for. */
export interface RequestWorld {
  readonly model: ModelLimits;
  /** Bounds how long they run; those that leave the maximum out, and mutated ones, take what the context holds. */
  readonly maxNewTokens: number;
  /** Ranks that serve, [0, ranks). */
  readonly ranks: number;
  readonly constraint: fc.Arbitrary<SamplingParams['constraint']>;
  readonly stop: fc.Arbitrary<string>;
}

/** `value` now and then. */
function seldom<T>(value: fc.Arbitrary<T>, weight = 1, nothing = 4): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight: nothing, arbitrary: fc.constant(undefined) }, { weight, arbitrary: value });
}

/** `T` without the keys that are undefined: an init that leaves them out. */
function given<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

const float = (min: number, max: number) => fc.float({ min: Math.fround(min), max: Math.fround(max), noNaN: true });

/** Requests as clients mean them: nearly all are to be served. */
export function validRequest(world: RequestWorld): fc.Arbitrary<GenerateRequest> {
  const { model } = world;
  return fc
    .record({
      prompt: anyPrompt(world),
      sampling: fc.oneof(
        { weight: 12, arbitrary: anySampling(world) },
        { weight: 1, arbitrary: fc.constant(undefined) },
      ),
      stream: fc.oneof({ weight: 3, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
      returnLogprob: fc.boolean(),
      logprobStartLen: fc.oneof(fc.constant(-1), fc.nat(model.contextLength), fc.constant(0)),
      topLogprobsNum: fc.oneof(fc.constant(0), fc.nat(5), fc.constantFrom(model.vocabSize)),
      tokenIdsLogprob: seldom(fc.array(anyId(model), { minLength: 1, maxLength: 4 })),
      returnHiddenStates: fc.oneof(
        { weight: 4, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
      embeds: seldom(fc.nat(), 1, 8),
      dataParallelRank: seldom(fc.nat(world.ranks - 1), 1, 8),
      logMetrics: fc.boolean(),
      timestamp: seldom(
        fc.record({ seconds: fc.bigInt({ min: 0n, max: 4_000_000_000n }), nanos: fc.nat(999_999_999) }),
      ),
    })
    .map(({ prompt, sampling, embeds, ...rest }) => {
      const inputEmbeds = embeds === undefined ? undefined : embeddings(embeds, prompt.length * model.hiddenSize);
      const request = create(GenerateRequestSchema, {
        tokenized: { inputIds: prompt, originalText: prompt.length % 2 ? '' : 'as text' },
        ...given({ ...rest, inputEmbeds }),
      });
      if (sampling) request.samplingParams = create(SamplingParamsSchema, sampling);
      return request;
    });
}

const anyId = ({ vocabSize }: ModelLimits) => fc.nat(vocabSize - 1);

/** Some begin alike, so that prefixes are shared; some fill the context. */
function anyPrompt({ model }: RequestWorld): fc.Arbitrary<number[]> {
  const { contextLength, vocabSize } = model;
  return fc
    .record({
      book: fc.nat(2),
      length: fc.oneof({ weight: 8, arbitrary: fc.nat(20) }, { weight: 1, arbitrary: fc.nat(contextLength - 1) }),
      own: fc.array(anyId(model), { minLength: 1, maxLength: 6 }),
    })
    .map(({ book, length, own }) =>
      [...Array.from({ length }, (_, at) => (at * (7 + book) + book) % vocabSize), ...own].slice(0, contextLength),
    );
}

function anySampling({ model, maxNewTokens, constraint, stop }: RequestWorld) {
  const biases = fc.dictionary(
    anyId(model).map(String),
    fc.oneof(float(-10, 10), fc.constantFrom(-100, 100, -FLOAT_MAX, FLOAT_MAX)),
    {
      maxKeys: 4,
    },
  );
  return fc
    .record({
      temperature: fc.oneof(fc.constantFrom(0, 1), fc.constantFrom(0, 1, 1e-6, FLOAT_MAX), float(0, 2)),
      topP: fc.oneof(fc.constantFrom(0, 1), fc.constantFrom(0, 1, 1e-38), float(0.01, 1)),
      topK: fc.oneof(fc.constantFrom(-1, 0), fc.integer({ min: 1, max: model.vocabSize })),
      minP: fc.oneof(fc.constant(0), fc.constantFrom(0, 1), float(0, 1)),
      frequencyPenalty: fc.oneof(fc.constant(0), fc.constantFrom(-2, 2), float(-2, 2)),
      presencePenalty: fc.oneof(fc.constant(0), float(-2, 2)),
      repetitionPenalty: fc.oneof(fc.constantFrom(0, 1), fc.constantFrom(1e-38, 2), float(0.1, 2)),
      maxNewTokens: fc.nat(maxNewTokens),
      minNewTokens: fc.oneof(fc.constant(0), fc.nat(maxNewTokens)),
      stop: seldom(fc.array(stop, { minLength: 1, maxLength: 3 })),
      stopTokenIds: seldom(fc.array(anyId(model), { minLength: 1, maxLength: 3 })),
      skipSpecialTokens: fc.boolean(),
      spacesBetweenSpecialTokens: fc.boolean(),
      ignoreEos: fc.boolean(),
      noStopTrim: fc.boolean(),
      n: fc.oneof(
        { weight: 50, arbitrary: fc.constantFrom(0, 1) },
        { weight: 50, arbitrary: fc.integer({ min: 2, max: 4 }) },
        { weight: 1, arbitrary: fc.constant(128) },
      ),
      streamInterval: seldom(fc.integer({ min: 1, max: 8 })),
      logitBias: seldom(biases),
      customParams: seldom(fc.record({ seed: fc.maxSafeInteger() })),
      constraint: seldom(constraint),
    })
    .map((sampling) => given({ ...sampling, minNewTokens: Math.min(sampling.minNewTokens, sampling.maxNewTokens) }));
}

/** Any numbers, the same for a seed. */
function embeddings(seed: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => Math.fround(Math.sin(seed + at * 12.9898) * 2));
}

/** What a mutation puts into a field: the field's type picks one of them. */
interface Values {
  readonly int: number;
  readonly uint: number;
  readonly float: number;
  readonly text: string;
  readonly flag: boolean;
  readonly ints: number[];
  readonly json: fc.JsonValue;
  readonly key: string;
}

const EDGES = [-2147483648, -2, -1, 0, 1, 2, 63, 64, 65, 127, 128, 129, 1024, 1025, 2147483647];
const FLOATS = [0, -0, 1, -1, 2, 1e-45, 9e-7, 0.5, 1.0000001, 2.5, 1e30, -FLOAT_MAX, FLOAT_MAX];

const anyValues: fc.Arbitrary<Values> = fc.record({
  int: fc.oneof(fc.constantFrom(...EDGES), fc.integer()),
  uint: fc.oneof(fc.constantFrom(...EDGES.filter((edge) => edge >= 0)), fc.integer({ min: 0, max: 2 ** 32 - 1 })),
  float: fc.oneof(
    fc.constantFrom(...FLOATS.map(Math.fround), Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
    fc.float(),
  ),
  text: fc.oneof(fc.constantFrom('', '{}', '{', '$$ANY$$', 'a', '\u0000', '🙂'), fc.string({ unit: 'grapheme' })),
  flag: fc.boolean(),
  ints: fc.oneof(
    fc.array(fc.integer({ min: 0, max: 70 }), { maxLength: 200 }),
    fc.array(fc.integer({ min: 0, max: 2 ** 32 - 1 }), { maxLength: 3 }),
  ),
  json: fc.jsonValue(),
  key: fc.oneof(fc.constantFrom('seed', 'priority', '0', '05', '64', '-1', ''), fc.nat(70).map(String), fc.string()),
});

/** A valid request with some of its fields, of whatever message in it, set to anything of their types. */
export function mutatedRequest(world: RequestWorld): fc.Arbitrary<GenerateRequest> {
  const mutation = fc.record({ field: fc.nat(), values: anyValues });
  return fc
    .tuple(validRequest(world), fc.array(mutation, { minLength: 1, maxLength: 3 }))
    .map(([request, mutations]) => {
      for (const { field, values } of mutations) mutate(request, field, values);
      return request;
    });
}

type Fields = Record<string, unknown>;

/** Messages in a request whose fields are mutated like its own; each is there once one of its fields is. */
const INNER: readonly (readonly [string, DescMessage])[] = [
  ['samplingParams', SamplingParamsSchema],
  ['tokenized', TokenizedInputSchema],
  ['mmInputs', MultimodalInputsSchema],
  ['disaggregatedParams', DisaggregatedParamsSchema],
];

const TARGETS: readonly {
  readonly parent: string | undefined;
  readonly schema: DescMessage;
  readonly field: DescField;
}[] = ([[undefined, GenerateRequestSchema], ...INNER] as const).flatMap(([parent, schema]) =>
  schema.fields.map((field) => ({ parent, schema, field })),
);

function mutate(request: GenerateRequest, pick: number, values: Values): void {
  const target = TARGETS[pick % TARGETS.length];
  if (!target) return;
  const { parent, schema, field } = target;
  const root = request as unknown as Fields;
  if (parent !== undefined) root[parent] ??= create(schema);
  const message = (parent === undefined ? root : root[parent]) as Fields;
  const value = anyOf(field, values);
  if (field.oneof) message[field.oneof.localName] = { case: field.localName, value };
  else message[field.localName] = value;
}

function anyOf(field: DescField, values: Values): unknown {
  if (field.fieldKind === 'scalar') return scalarOf(field.scalar, values);
  if (field.fieldKind === 'map') return { [values.key]: scalarOf(field.scalar ?? ScalarType.FLOAT, values) };
  if (field.fieldKind === 'list') {
    const scalar = field.scalar ?? ScalarType.STRING;
    if (scalar === ScalarType.UINT32) return values.ints;
    return values.ints.slice(0, 4).map(() => scalarOf(scalar, values));
  }
  // A message is taken out, or made: the fields of most are mutated by themselves.
  if (field.message === undefined || values.flag) return undefined;
  if (field.message.typeName === 'google.protobuf.Struct') return { [values.key]: values.json };
  if (field.message.typeName === 'google.protobuf.Timestamp') {
    return create(field.message, { seconds: BigInt(values.int) * BigInt(values.uint), nanos: values.int } as Record<
      string,
      unknown
    >);
  }
  return create(field.message);
}

function scalarOf(type: ScalarType, values: Values): unknown {
  switch (type) {
    case ScalarType.STRING:
      return values.text;
    case ScalarType.BYTES:
      return Uint8Array.from(values.ints, (one) => one & 255);
    case ScalarType.BOOL:
      return values.flag;
    case ScalarType.FLOAT:
    case ScalarType.DOUBLE:
      return values.float;
    case ScalarType.UINT32:
      return values.uint;
    default:
      return values.int;
  }
}

/** Bytes with a few of them changed, left out, repeated or cut off. */
export function mutatedBytes(bytes: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Uint8Array> {
  const edit = fc.record({
    at: fc.nat(),
    what: fc.constantFrom('set', 'cut', 'repeat', 'end'),
    byte: fc.nat(255),
    length: fc.integer({ min: 1, max: 8 }),
  });
  return fc.tuple(bytes, fc.array(edit, { minLength: 1, maxLength: 3 })).map(([whole, edits]) =>
    edits.reduce((now, { at: anywhere, what, byte, length }) => {
      const at = now.length === 0 ? 0 : anywhere % now.length;
      const [before, after] = [now.subarray(0, at), now.subarray(at)];
      if (what === 'set') return Uint8Array.from([...before, byte, ...after.subarray(1)]);
      if (what === 'cut') return Uint8Array.from([...before, ...after.subarray(length)]);
      if (what === 'repeat') return Uint8Array.from([...before, ...after.subarray(0, length), ...after]);
      return before;
    }, whole),
  );
}
