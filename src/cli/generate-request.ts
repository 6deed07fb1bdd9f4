import { randomUUID } from 'node:crypto';
import { clone, create, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import {
  type GenerateRequest,
  GenerateRequestSchema,
  type SamplingParams,
  SamplingParamsSchema,
} from '../contract/gen/sglang_scheduler_pb.ts';
import { CONSTRAINTS, type GenerateFlags } from './generate-flags.ts';

/** The request that the flags ask for: a file's, or one with the gateways' defaults, overridden by what was given. */
export function requestOf(flags: GenerateFlags, encode: (prompt: string) => number[]): GenerateRequest {
  const request = flags.request
    ? clone(GenerateRequestSchema, flags.request)
    : create(GenerateRequestSchema, {
        requestId: `cli-${randomUUID()}`,
        samplingParams: samplingDefaults(),
        logprobStartLen: -1,
        stream: true,
      });
  assignGiven(GenerateRequestSchema, request, flags);
  if (flags.prompt !== undefined || flags.inputIds !== undefined) {
    request.tokenized = {
      $typeName: 'sglang.grpc.scheduler.TokenizedInput',
      originalText: flags.prompt ?? '',
      inputIds: flags.inputIds ?? encode(flags.prompt!),
    };
  }
  // In a file without them, what the flags leave open is the default, not the proto's zero.
  const sampling = samplingOf(request.samplingParams ?? samplingDefaults(), flags);
  if (sampling) request.samplingParams = sampling;
  return request;
}

/** As the gateways send them. */
function samplingDefaults(): SamplingParams {
  return create(SamplingParamsSchema, {
    temperature: 1,
    topP: 1,
    topK: -1,
    repetitionPenalty: 1,
    n: 1,
    skipSpecialTokens: true,
    spacesBetweenSpecialTokens: true,
  });
}

/** Undefined where no flag concerns it and the file had none either. */
function samplingOf(sampling: SamplingParams, flags: GenerateFlags): SamplingParams | undefined {
  let given = assignGiven(SamplingParamsSchema, sampling, flags);
  if (flags.stopTrim !== undefined) {
    sampling.noStopTrim = !flags.stopTrim;
    given = true;
  }
  for (const name of CONSTRAINTS) {
    const text = flags[name];
    if (text === undefined) continue;
    sampling.constraint = { case: name, value: text };
    given = true;
  }
  const { seed, priority } = flags;
  if (seed !== undefined || priority !== undefined) {
    sampling.customParams = {
      ...sampling.customParams,
      ...(seed === undefined ? {} : { seed }),
      ...(priority === undefined ? {} : { priority }),
    };
    given = true;
  }
  return given || flags.request === undefined || flags.request.samplingParams ? sampling : undefined;
}

/** Takes over what was given under the names of the message's fields; whether anything was. */
function assignGiven<D extends DescMessage>(schema: D, message: MessageShape<D>, flags: GenerateFlags): boolean {
  const values = flags as unknown as Readonly<Record<string, unknown>>;
  let given = false;
  for (const { localName, oneof } of schema.fields) {
    if (oneof !== undefined || values[localName] === undefined) continue;
    (message as unknown as Record<string, unknown>)[localName] = values[localName];
    given = true;
  }
  return given;
}
