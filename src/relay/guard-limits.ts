import type { DescMethod } from '@bufbuild/protobuf';
import { ReportRequestSchema } from '../contract/gen/node_relay_pb.ts';
import {
  GenerateRequestSchema,
  SamplingParamsSchema,
  TokenizedInputSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import type { JsonLimits } from '../contract/json-guard.ts';
import type { WireLimits } from '../contract/wire-guard.ts';
import type { ServedModel } from './served-model.ts';

/** What one request of a method may hold. */
export interface RequestLimits {
  readonly maxBytes: number;
  /** JSON costs several times what binary does. */
  readonly maxJsonBytes: number;
  readonly wire: WireLimits;
  readonly json: JsonLimits;
}

const MIB = 1024 * 1024;
/** Decoding this many numbers takes some 40 ms, and decoding this many messages some 70. */
const MAX_SCALARS = 200_000;
const MAX_FIELDS = 50_000;
/** A page reports some 250,000 numbers at a time, or one position with a whole vocabulary's logprobs: some 110 ms. */
const MAX_REPORT_SCALARS = 600_000;
/** Decoding and checking this many floats takes some 100 ms. */
const MAX_EMBEDS = 1024 * 1024;
const MAX_DEPTH = 64;

/** Limits by method: prompts are bounded by the context, reports by the credits they can answer. */
export function limitsOf(method: DescMethod, model: ServedModel, readMaxBytes: number): RequestLimits {
  const list = (type: { typeName: string }, field: string) => `${type.typeName}.${field}`;
  const isReport = method.input.typeName === ReportRequestSchema.typeName;
  const embeds = Math.min(MAX_EMBEDS, model.contextLength * model.hiddenSize);
  const prompts = new Map([
    [list(TokenizedInputSchema, 'input_ids'), model.contextLength],
    [list(SamplingParamsSchema, 'stop_token_ids'), model.vocabSize],
    [list(GenerateRequestSchema, 'token_ids_logprob'), MAX_SCALARS],
    [list(GenerateRequestSchema, 'input_embeds'), embeds],
  ]);
  return {
    maxBytes: isReport ? Math.min(readMaxBytes, 8 * MIB) : readMaxBytes,
    maxJsonBytes: Math.min(readMaxBytes, 4 * MIB),
    wire: {
      maxScalars: isReport ? MAX_REPORT_SCALARS : MAX_SCALARS + model.contextLength + embeds,
      maxFields: MAX_FIELDS,
      maxDepth: MAX_DEPTH,
      lists: prompts,
    },
    json: { maxElements: MAX_FIELDS + model.contextLength, maxDepth: MAX_DEPTH },
  };
}
